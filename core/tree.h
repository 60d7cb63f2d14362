/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The tree: groups, their members, and who is entitled to run next by virtual time.
 *
 * Problem  Members with weights, nested in groups with weights, must each receive their part at every level.
 * Rule     Every member has a virtual time in its group. Running charges the task and all its ancestors. A
 *          group with a member that waits is itself a waiting member of its parent. The waiting or running
 *          member with the smallest virtual time is entitled. A member that wakes resumes at
 *          max(own, group's minimum): it may not save up what it did not use.
 * Bound    For runnable i, j of one group, on one CPU: vtime_i - vtime_j <= quantum / weight_i, where quantum is
 *          the longest time for which i runs before it is compared again.
 * Source   000 section 2.3.3 (borrowing); 001 (hierarchical stride); 004 Lemma 1.
 * Limits   On several CPUs a group's minimum is that of its waiting members and the one charged last; the
 *          bound grows by one quantum for each further CPU. Deeper than TREE_DEPTH_MAX levels, members
 *          are attached to the deepest level's group.
 */
#ifndef CORE_TREE_H
#define CORE_TREE_H

#include "period.h"

static __always_inline void group_follow(struct group __arena *g, u64 vtime)
{
	struct tree_node __arena *first = group_first(g);

	if (first && vtime_before(first->vtime, vtime))
		vtime = first->vtime;
	g->vmin = vtime_max(g->vmin, vtime);
}

/*
 * Charges `ns` of CPU time to a node and to every ancestor. A fair group's minimum follows where nobody else is active;
 * else the next choice moves it: of the others some may run, with a smaller virtual time, and only the host knows.
 */
core_fn tree_charge(struct tree_node __arena *n in_arena, u64 ns)
{
	struct group __arena *g;

	for (int level = 0; level <= TREE_LEVELS_MAX; level++) {
		g = n->parent;
		if (!g) {
			group_of(n)->ran_ns += ns;
			break;
		}
		if (group_has_periods(g)) {
			period_charge(g, n, ns);
		} else {
			n->vtime += vtime_of_ns(ns, node_weight(n));
			if (n->ready.queued && g->node.kind == NODE_FAIR)
				heap_move(&g->ready, &n->ready, n->vtime, 0);
			if (g->nr_active == n->active)
				g->vmin = vtime_max(g->vmin, n->vtime);
			else if (g->node.kind != NODE_FAIR)
				group_follow(g, n->vtime);
		}
		n = &g->node;
	}
	return 0;
}

/*
 * Puts an active node among those that wait, under the key that its group orders by (a fair group: its virtual
 * time), and its ancestors with it.
 */
core_fn tree_enqueue(struct tree_node __arena *n in_arena, u64 major, u64 minor)
{
	struct group __arena *g;

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		g = n->parent;
		if (!g || n->ready.queued)
			break;
		if (group_has_periods(g))
			period_enqueue(g, n);
		else
			heap_push(&g->ready, &n->ready, major, minor);
		n = &g->node;
		major = n->vtime;
		minor = 0;
	}
	return 0;
}

/* Takes a node from those that wait; ancestors without another waiting member go with it. */
core_fn tree_dequeue(struct tree_node __arena *n in_arena)
{
	struct group __arena *g;

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		g = n->parent;
		if (!g || !n->ready.queued)
			break;
		if (group_has_periods(g))
			period_dequeue(g, n);
		else
			heap_remove(&g->ready, &n->ready);
		if (g->ready.top)
			break;
		n = &g->node;
	}
	return 0;
}

/* The same for two members of one group. */
static __always_inline void group_exchange(struct group __arena *g, struct tree_node __arena *out,
					   struct tree_node __arena *in, u64 major, u64 minor)
{
	if (group_has_periods(g)) {
		in->is_ahead = 0;
		major = period_deadline(in, in->vtime);
		if (!g->ahead.top && heap_replace_only(&g->ready, &out->ready, &in->ready, major, 0))
			return;
		period_enqueue(g, in);
		period_dequeue(g, out);
		return;
	}
	if (heap_replace_only(&g->ready, &out->ready, &in->ready, major, minor))
		return;
	heap_push(&g->ready, &in->ready, major, minor);
	heap_remove(&g->ready, &out->ready);
}

/*
 * `in` begins to wait, under its key, and `out`, which waits, is taken. Where both are the only ones of their groups to
 * wait, so do these; above the group in which they meet nothing changes. They are of one place: they do meet, but the root
 * may be below the top, at the same level.
 */
core_fn tree_exchange(struct tree_node __arena *out in_arena, struct tree_node __arena *in in_arena,
		      u64 major, u64 minor)
{
	for (int level = 0; level <= TREE_LEVELS_MAX; level++) {
		struct group __arena *from = out->parent, *to = in->parent;

		if (from == to) {
			group_exchange(from, out, in, major, minor);
			return 0;
		}
		if (!from->level || from->level != to->level || from->node.kind != NODE_FAIR ||
		    to->node.kind != NODE_FAIR ||
		    !heap_exchange_only(&from->ready, &out->ready, &to->ready, &in->ready, major,
					minor))
			break;
		out = &from->node;
		in = &to->node;
		major = in->vtime;
		minor = 0;
	}
	tree_enqueue(in, major, minor);
	tree_dequeue(out);
	return 0;
}

/* A node becomes runnable: borrows up to the minimum, at each level that was not active. */
static __always_inline void tree_activate(struct tree_node __arena *n, u64 now_ns)
{
	struct group __arena *g;

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		g = n->parent;
		if (!g || n->active)
			break;
		if (group_has_periods(g))
			period_wake(g, n, now_ns);
		else
			n->vtime = vtime_max(n->vtime, g->vmin);
		n->active = 1;
		g->nr_active++;
		g->weight_active += n->weight;
		n = &g->node;
	}
}

/* A node that does not wait stops being runnable. */
static __always_inline void tree_deactivate(struct tree_node __arena *n)
{
	struct group __arena *g;

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		g = n->parent;
		if (!g || !n->active)
			break;
		n->active = 0;
		g->nr_active--;
		g->weight_active -= n->weight;
		if (g->nr_active)
			break;
		n = &g->node;
	}
}

/* Gives a node another weight, keeping its group's sums right. */
static __always_inline void tree_set_weight(struct tree_node __arena *n, u64 weight)
{
	if (n->active && n->parent)
		n->parent->weight_active += weight - n->weight;
	period_count(n->parent, weight - n->weight);
	n->weight = weight;
}

/*
 * Moves an inactive node to another group. It keeps how far it was ahead of the old group's minimum, up to
 * `ahead_max` of virtual time; being behind is forgotten, as on every wake-up.
 */
static __always_inline void tree_move(struct tree_node __arena *n, struct group __arena *to,
				      u64 ahead_max)
{
	u64 ahead = 0;

	if (n->parent && vtime_before(n->parent->vmin, n->vtime))
		ahead = n->vtime - n->parent->vmin;
	if (ahead > ahead_max)
		ahead = ahead_max;
	period_count(n->parent, -n->weight);
	period_count(to, n->weight);
	n->parent = to;
	n->vtime = to->vmin + ahead;
	n->ends_vtime = n->vtime + n->period_vtime;
}

/* Whether the first of two members of a group by virtual time, and periods if it has any, runs before the second. */
static __always_inline int group_before(const struct group __arena *g,
					const struct tree_node __arena *n,
					const struct tree_node __arena *other)
{
	if (group_has_periods(g))
		return period_before(g, n, n->vtime, other, other->vtime);
	return vtime_before(n->vtime, other->vtime);
}

/* The first of those that wait, once it is the one that is to run; NULL if nobody does. */
static __always_inline struct tree_node __arena *group_next(struct group __arena *g)
{
	/* With one that waits there is nothing to order. */
	if (group_has_periods(g) && g->ready.top && (g->ahead.top || g->ready.top->left))
		period_order(g);
	return group_first(g);
}

/* Whether no waiting member is entitled before `n`, which does not wait, at any level outside of domains. */
core_fn tree_is_first(struct tree_node __arena *n in_arena)
{
	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		struct group __arena *g = n->parent;
		struct tree_node __arena *first;

		if (!g)
			return 1;
		first = g->node.kind != NODE_COOP ? group_next(g) : NULL;
		if (first && first != n && group_before(g, first, n))
			return 0;
		n = &g->node;
	}
	return 1;
}

/* The ancestor of `n`, or `n` itself, that is a member of `g`; NULL if `n` is not below `g`. */
static __always_inline struct tree_node __arena *tree_member_above(struct tree_node __arena *n,
								   struct group __arena *g)
{
	for (int level = 0; level <= TREE_LEVELS_MAX; level++) {
		struct group __arena *parent = n->parent;

		if (parent == g)
			return n;
		if (!parent)
			return NULL;
		n = &parent->node;
	}
	return NULL;
}

#endif
