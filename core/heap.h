/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * An ordered queue: a leftist heap of links that live inside the queued objects.
 *
 * Problem  Queues of any length in interrupt context: no allocation, no capacity, removal from the middle.
 * Rule     A binary tree with parents before children, and the shorter path to an empty place always on
 *          the right. Every operation merges two right spines.
 * Bound    A right spine of n links has at most log2(n + 1); push, pop and remove are O(log n), worst case.
 * Source   C. Crane, 1972; 000 section 2.3.1 asks for O(log n) insertion and removal.
 * Limits   Equal keys with equal turns come out in no promised order.
 *
 * Keys compare by `major` as a signed difference (times wrap), then by `minor` unsigned, then by the turn as a signed difference.
 */
#ifndef CORE_HEAP_H
#define CORE_HEAP_H

#include "types.h"

struct heap_link {
	struct heap_link __arena *parent;
	struct heap_link __arena *left;
	struct heap_link __arena *right;
	u64 major;
	u64 minor;
	u8 rank; /* links on the right spine from here, this one included */
	u8 queued;
	u32 turn; /* set by the owner before the link is queued */
};

struct heap {
	struct heap_link __arena *top;
};

static __always_inline int heap_key_before(u64 major_a, u64 minor_a, u64 major_b, u64 minor_b)
{
	s64 d = (s64)(major_a - major_b);

	return d < 0 || (d == 0 && minor_a < minor_b);
}

static __always_inline int heap_turn_before(u64 major_a, u64 minor_a, u32 turn_a, u64 major_b,
					    u64 minor_b, u32 turn_b)
{
	if (major_a == major_b && minor_a == minor_b)
		return (s32)(turn_a - turn_b) < 0;
	return heap_key_before(major_a, minor_a, major_b, minor_b);
}

static __always_inline int heap_before(const struct heap_link __arena *a,
				       const struct heap_link __arena *b)
{
	return heap_turn_before(a->major, a->minor, a->turn, b->major, b->minor, b->turn);
}

static __always_inline u32 heap_rank(const struct heap_link __arena *l)
{
	return l ? l->rank : 0;
}

/* Puts the shorter spine to the right; true if the rank changed. */
static __always_inline int heap_settle(struct heap_link __arena *l)
{
	struct heap_link __arena *left = l->left, *right = l->right;
	u32 rank_left = heap_rank(left), rank_right = heap_rank(right), rank = rank_right + 1;

	if (rank_left < rank_right) {
		l->left = right;
		l->right = left;
		rank = rank_left + 1;
	}
	if (l->rank == rank)
		return 0;
	l->rank = rank;
	return 1;
}

/* Merges two non-empty heaps; returns the new top, whose parent the caller sets. */
static __always_inline struct heap_link __arena *heap_merge(struct heap_link __arena *a,
							    struct heap_link __arena *b)
{
	struct heap_link __arena *top, *at, *next;

	if (heap_before(b, a)) {
		next = a;
		a = b;
		b = next;
	}
	top = at = a;
	while (can_loop) {
		next = at->right;
		if (!next) {
			at->right = b;
			b->parent = at;
			break;
		}
		if (heap_before(b, next)) {
			at->right = b;
			b->parent = at;
			at = b;
			b = next;
		} else {
			at = next;
		}
	}
	while (can_loop) {
		heap_settle(at);
		if (at == top)
			break;
		at = at->parent;
	}
	return top;
}

/* Restores ranks from `l` upwards, until one is as it was. */
static __always_inline void heap_settle_up(struct heap_link __arena *l)
{
	while (can_loop) {
		if (!l || !heap_settle(l))
			break;
		l = l->parent;
	}
}

/* A merge with a heap of one: what it displaces on the right spine becomes its left child. */
core_fn heap_push(struct heap __arena *h in_arena, struct heap_link __arena *l in_arena, u64 major,
		  u64 minor)
{
	struct heap_link __arena *above = NULL, *below = h->top;

	while (can_loop) {
		if (!below || heap_turn_before(major, minor, l->turn, below->major, below->minor,
					       below->turn))
			break;
		above = below;
		below = above->right;
	}
	l->parent = above;
	l->left = below;
	l->right = NULL;
	l->major = major;
	l->minor = minor;
	l->rank = 1;
	l->queued = 1;
	if (below)
		below->parent = l;
	if (!above) {
		h->top = l;
		return 0;
	}
	above->right = l;
	heap_settle_up(above);
	return 0;
}

core_fn heap_remove(struct heap __arena *h in_arena, struct heap_link __arena *l in_arena)
{
	struct heap_link __arena *left = l->left, *right = l->right, *parent = l->parent, *in;

	in = !right ? left : !left ? right : heap_merge(left, right);
	if (in)
		in->parent = parent;
	l->queued = 0;
	if (!parent) {
		h->top = in;
		return 0;
	}
	if (parent->left == l)
		parent->left = in;
	else
		parent->right = in;
	heap_settle_up(parent);
	return 0;
}

/*
 * Takes `out` from one heap, where it is the only link, and puts `in` into another one that is empty, or into the same:
 * else returns 0, and nothing has changed.
 */
static __always_inline int heap_exchange_only(struct heap __arena *from,
					      struct heap_link __arena *out, struct heap __arena *to,
					      struct heap_link __arena *in, u64 major, u64 minor)
{
	if (from->top != out || out->left || (to != from && to->top))
		return 0;
	out->queued = 0;
	from->top = NULL;
	in->parent = NULL;
	in->left = NULL;
	in->right = NULL;
	in->major = major;
	in->minor = minor;
	in->rank = 1;
	in->queued = 1;
	to->top = in;
	return 1;
}

/* Puts `in` in the place of `out`, if that is the only link; else returns 0, and nothing has changed. */
static __always_inline int heap_replace_only(struct heap __arena *h, struct heap_link __arena *out,
					     struct heap_link __arena *in, u64 major, u64 minor)
{
	return heap_exchange_only(h, out, h, in, major, minor);
}

/* Moves a queued link to a new key. */
static __always_inline void heap_move(struct heap __arena *h, struct heap_link __arena *l,
				      u64 major, u64 minor)
{
	if (h->top == l && !l->left) {
		/* Alone: the common case of a group whose members are few. */
		l->major = major;
		l->minor = minor;
		return;
	}
	heap_remove(h, l);
	heap_push(h, l, major, minor);
}

#endif
