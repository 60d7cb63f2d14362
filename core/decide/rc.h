/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * RC: turns by periods and by the clock, to be studied beside those of period.h.
 *
 * Problem  Is a virtual time of the group needed, where each member has a rate and there is real time?
 * Rule     As in period.h, but the group's time is real time, and nobody gives way for being ahead of it: of the
 *          waiting members the one whose period ends first runs. A member's virtual time is its finish value: when what
 *          it has had would be done at its effective rate. Running adds `ns` / rate; who wakes is at the present time at
 *          least.
 * Bound    While the group has what its members' rates sum up to, who is punctual has had its rate by the end of each of
 *          its periods, or of the slice that it was in (Theorem 1 of 004). There is none for who has run beyond its rate
 *          on a CPU that nobody else wanted: it waits until the others' periods end as late as its own (the punishment
 *          phenomenon, 004 section 2.1).
 * Source   004 section 2, Figure 2a; effective rates as in section 3.
 * Limits   Each place counts what a member has had there. A period begins when a member wakes that is behind, not at a
 *          multiple of its length. Who has slept for a hundred days may be taken for one that is ahead.
 */
#ifndef CORE_DECIDE_RC_H
#define CORE_DECIDE_RC_H

#include "../node.h"

/* The group's time: of a member that has a CPU for itself. */
static __always_inline u64 rc_vtime(u64 now_ns)
{
	return now_ns << VTIME_SHIFT;
}

/* The member's effective rate, of one CPU at most, as a weight. */
static __always_inline u64 rc_weight(const struct group __arena *g,
				     const struct tree_node __arena *n)
{
	u64 rate = g->capacity * n->weight / (g->weight_all ? g->weight_all : 1);

	return rate < WEIGHT_ONE ? rate : WEIGHT_ONE;
}

#endif
