/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Hot: a task goes on where it has last run, rather than on whichever CPU chooses first.
 *
 * Problem  Several CPUs choose from one place. The first by virtual time is nearly always one that another CPU has had: with
 *          each slice a task would leave the caches that hold its data.
 * Rule     Of those that have last run on the CPU that chooses, the one that is least ahead of the first goes before that
 *          one, if at no level of the tree it is ahead by more than a slice of the heavier of both. Before a task that has just
 *          woken goes only one that has been sent a message by a task of this CPU, if it is ahead by a shortest slice at most. A
 *          due event and one that has waited for too long go first wherever a CPU chooses. One that sends messages goes on for a
 *          protected slice (slice.h), as far as it is not ahead by more.
 * Bound    A member may be ahead, and others behind, by a slice more than by virtual time alone, or by a protected one: one that
 *          waits is passed by each CPU's own once, and only until it has waited for as long as choose.h allows. It changes CPUs once
 *          in the time in which it gains or loses a slice on the others.
 * Source   The task_hot() of Linux' balancing, and its wake_affine(). EEVDF has a queue for each CPU instead: there a task moves only where the
 *          numbers of tasks are uneven, and shares are as uneven as these.
 * Limits   The host says which tasks have last run on a CPU: a few of them. Members of domains are not asked.
 */
#ifndef CORE_HOT_H
#define CORE_HOT_H

#include "choice.h"

/*
 * Whether `n` is ahead of the first of its group by a slice at most; how far is noted in the choice, if that is more than at the
 * levels below. A function of its own, and the choice a notebook: else the verifier of Linux 6.18 follows each path of each level.
 */
core_fn hot_is_near(struct choice __arena *c in_arena, const struct tree_node __arena *n in_arena)
{
	struct group __arena *g = n->parent;
	struct tree_node __arena *first = group_next(g);
	u64 weight;
	s64 ahead;

	if (!first || first == n)
		return 1;
	if (g->node.kind != NODE_FAIR)
		return 0;
	weight = node_weight(n) > node_weight(first) ? node_weight(n) : node_weight(first);
	ahead = fair_key(n) - fair_key(first);
	if (ahead > (s64)vtime_of_ns(c->slice_ns, weight))
		return 0;
	if (ahead > (s64)c->ahead)
		c->ahead = ahead;
	return 1;
}

/*
 * Whether `n`, which could go on where the choice is made, goes before whoever is first by virtual time, and before those that
 * were asked before it since the choice's `least_ahead` was NEVER_NS.
 */
core_fn hot_goes_first(struct choice __arena *c in_arena, const struct tree_node __arena *n in_arena)
{
	c->ahead = 0;
	while (can_loop) {
		if (!n->parent)
			break;
		if (!hot_is_near(c, n))
			return 0;
		n = &n->parent->node;
	}
	if (c->ahead >= c->least_ahead)
		return 0;
	c->least_ahead = c->ahead;
	return 1;
}

#endif
