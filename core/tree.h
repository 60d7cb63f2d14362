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

#include "heap.h"
#include "vtime.h"

#define TREE_DEPTH_MAX 8
/* A reserved cgroup is below its reservation and class, besides. */
#define TREE_LEVELS_MAX (TREE_DEPTH_MAX + 2)

enum node_kind {
	NODE_TASK,
	NODE_FAIR, /* group: smallest virtual time first */
	NODE_COOP, /* group: a cooperation domain, see coop.h */
};

struct group;

/* A member of a group: a task or a group. */
struct tree_node {
	struct heap_link ready; /* in parent's, by virtual time, while it waits */
	struct group __arena *parent;
	u64 vtime;
	u64 weight; /* what it was given */
	u8 kind; /* enum node_kind */
	u8 active; /* runnable: waits or runs */
};

struct group {
	struct tree_node node;
	struct heap ready; /* waiting members: by virtual time, in a domain by best-effort event */
	u64 vmin; /* smallest virtual time of the active members; never goes back */
	u64 weight_active; /* sum over active members, members lent to domains included */
	u64 weight_lent; /* of that, what members use elsewhere, see rate.h */
	u64 lent_above; /* what the parent counts as lent through this group */
	u64 ran_ns; /* while it had no parent: CPU time received */
	u32 nr_active;
	u32 level; /* 0: root */
};

static __always_inline struct tree_node __arena *node_of_ready(struct heap_link __arena *l)
{
	return outer_of(l, struct tree_node, ready);
}

static __always_inline struct group __arena *group_of(struct tree_node __arena *n)
{
	return outer_of(n, struct group, node);
}

/* The first waiting member, NULL if none. */
static __always_inline struct tree_node __arena *group_first(struct group __arena *g)
{
	struct heap_link __arena *top = g->ready.top;

	return top ? node_of_ready(top) : NULL;
}

/*
 * The weight with which a node competes. A group whose members are lent to a domain competes with what the others
 * leave of its weight, so that lending moves CPU time and never makes any.
 */
static __always_inline u64 node_weight(const struct tree_node __arena *n)
{
	const struct group __arena *g;
	u64 weight;

	if (n->kind != NODE_FAIR)
		return n->weight;
	g = outer_of(n, struct group, node);
	if (!g->weight_lent || !g->level)
		return n->weight;
	weight = g->weight_active > g->weight_lent ? g->weight_active - g->weight_lent : 0;
	weight = n->weight * weight / (g->weight_active ? g->weight_active : 1);
	return weight ? weight : 1;
}

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

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		g = n->parent;
		if (!g) {
			group_of(n)->ran_ns += ns;
			break;
		}
		n->vtime += vtime_of_ns(ns, node_weight(n));
		if (n->ready.queued && g->node.kind == NODE_FAIR)
			heap_move(&g->ready, &n->ready, n->vtime, 0);
		if (g->nr_active == n->active || g->node.kind != NODE_FAIR)
			group_follow(g, n->vtime);
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
		heap_remove(&g->ready, &n->ready);
		if (g->ready.top)
			break;
		n = &g->node;
	}
	return 0;
}

/*
 * `in` begins to wait, under its key, and `out`, which waits in the same group, is taken. The group does not cease to
 * wait: nothing changes above it.
 */
static __always_inline void tree_exchange(struct tree_node __arena *out,
					  struct tree_node __arena *in, u64 major, u64 minor)
{
	if (heap_replace_only(&in->parent->ready, &out->ready, &in->ready, major, minor))
		return;
	tree_enqueue(in, major, minor);
	tree_dequeue(out);
}

/* A node becomes runnable: borrows up to the minimum, at each level that was not active. */
static __always_inline void tree_activate(struct tree_node __arena *n)
{
	struct group __arena *g;

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		g = n->parent;
		if (!g || n->active)
			break;
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

/* Gives a node another weight, keeping its group's sum right. */
static __always_inline void tree_set_weight(struct tree_node __arena *n, u64 weight)
{
	if (n->active && n->parent)
		n->parent->weight_active += weight - n->weight;
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
	n->parent = to;
	n->vtime = to->vmin + ahead;
}

/* Whether no waiting member is entitled before `n`, which does not wait, at any level of fair groups. */
static __always_inline int tree_is_first(struct tree_node __arena *n)
{
	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		struct group __arena *g = n->parent;
		struct tree_node __arena *first;

		if (!g)
			return 1;
		first = g->node.kind == NODE_FAIR ? group_first(g) : NULL;
		if (first && first != n && vtime_before(first->vtime, n->vtime))
			return 0;
		n = &g->node;
	}
	return 1;
}

/* The ancestor of `n`, or `n` itself, that is a member of `g`; NULL if `n` is not below `g`. */
static __always_inline struct tree_node __arena *tree_member_above(struct tree_node __arena *n,
								   struct group __arena *g)
{
	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
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
