/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Decision functions: whose turn it is among the members of an account. The one place in which kinds are told apart.
 *
 * Each file of decide/ has one of them, with the same verbs: enqueue (a member begins to wait), dequeue (it is taken),
 * exchange (both at once, as most switches are), first (the waiting member that is to run), charge, wake, before (of two
 * members, does the first run first?). Decision groups, which are no accounts and take part through their seats, have the
 * same verbs in files of their own: decide/coop.h.
 */
#ifndef CORE_DECIDE_H
#define CORE_DECIDE_H

#include "decide/fair.h"
#include "decide/period.h"

static __always_inline void group_enqueue(struct group __arena *g, struct tree_node __arena *n)
{
	if (group_has_periods(g))
		period_enqueue(g, n);
	else
		fair_enqueue(g, n);
}

static __always_inline void group_dequeue(struct group __arena *g, struct tree_node __arena *n)
{
	if (group_has_periods(g))
		period_dequeue(g, n);
	else
		fair_dequeue(g, n);
}

static __always_inline void group_exchange(struct group __arena *g, struct tree_node __arena *out,
					   struct tree_node __arena *in)
{
	if (group_has_periods(g))
		period_exchange(g, out, in);
	else
		fair_exchange(g, out, in);
}

static __always_inline struct tree_node __arena *group_next(struct group __arena *g)
{
	return group_has_periods(g) ? period_first(g) : group_first(g);
}

static __always_inline void group_charge(struct group __arena *g, struct tree_node __arena *n,
					 u64 ns)
{
	if (group_has_periods(g))
		period_charge(g, n, ns);
	else
		fair_charge(g, n, ns);
}

static __always_inline void group_wake(struct group __arena *g, struct tree_node __arena *n,
				       u64 now_ns)
{
	if (group_has_periods(g))
		period_wake(g, n, now_ns);
	else
		fair_wake(g, n);
}

/* Whether a member runs before another one that will have had `ns` more. */
static __always_inline int group_before(const struct group __arena *g,
					const struct tree_node __arena *n,
					const struct tree_node __arena *other, u64 ns)
{
	if (group_has_periods(g))
		return period_before(g, n, other, ns);
	return vtime_before(fair_key(n),
			    fair_key(other) + (ns ? vtime_of_ns(ns, node_weight(other)) : 0));
}

#endif
