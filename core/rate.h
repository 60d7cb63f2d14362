/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rates that move: what a task takes along when it joins a domain.
 *
 * Problem  A task in a group of little weight must not escape that by joining a domain, nor may its group keep the
 *          weight that the task now uses elsewhere.
 * Rule     The task takes its flattened share: the product, level by level, of its part of the group's active
 *          weight. In its group an empty stand-in stays active in its stead, and the group competes with
 *          what is not lent: weight * (active - lent) / active, at every level above.
 * Bound    Group and lent member together compete with the weight that the group had before: joining gains
 *          timeliness, never CPU time.
 * Source   001 (ticket transfer); design of the tree.
 * Limits   Shares are those of the moment at which the member last woke or was charged; siblings that came or went
 *          since are seen then.
 */
#ifndef CORE_RATE_H
#define CORE_RATE_H

#include "tree.h"

/* Tells the groups above `g` which part of their weight is lent through it. */
static __always_inline void rate_propagate(struct group __arena *g)
{
	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		struct group __arena *parent = g->node.parent;
		u64 lent = 0;

		if (!g->level)
			break;
		if (g->weight_lent && g->weight_active)
			lent = g->node.weight * g->weight_lent / g->weight_active;
		parent->weight_lent += lent - g->lent_above;
		g->lent_above = lent;
		g = parent;
	}
}

/* What a member of `weight` in `g` weighs below the root, or would if it is not `active` there. */
static __always_inline u64 rate_flatten_if(const struct group __arena *g, u64 weight, int active)
{
	u64 sum;

	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		if (!g->level)
			break;
		sum = g->weight_active + (active ? 0 : weight);
		weight = g->node.weight * weight / (sum ? sum : 1);
		active = g->node.active;
		g = g->node.parent;
	}
	return weight ? weight : 1;
}

/* The same for one that is active. */
static __always_inline u64 rate_flatten(const struct group __arena *g, u64 weight)
{
	return rate_flatten_if(g, weight, 1);
}

/*
 * Lends a task's place in `home`: `stand_in`, an inactive node of the task's weight that belongs to nothing, becomes
 * active there.
 */
core_fn rate_lend(struct tree_node __arena *stand_in in_arena, struct group __arena *home in_arena,
		  u64 weight, u64 now_ns)
{
	stand_in->parent = home;
	stand_in->weight = weight;
	stand_in->vtime = home->vmin;
	tree_activate(stand_in, now_ns);
	home->weight_lent += weight;
	rate_propagate(home);
	return 0;
}

/* Takes the place back. */
core_fn rate_return(struct tree_node __arena *stand_in in_arena)
{
	struct group __arena *home = stand_in->parent;

	home->weight_lent -= stand_in->weight;
	tree_deactivate(stand_in);
	rate_propagate(home);
	return 0;
}

#endif
