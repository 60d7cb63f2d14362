/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A choice: whom a place would run, and how the minimum of each group on the way there moves on.
 *
 * Problem  A group's minimum is that of the members that wait. On several CPUs others run meanwhile with smaller virtual times.
 * Rule     A choice moves the minimum on to the member chosen. Where that leaps, the host holds it back to the members that run.
 * Bound    A minimum is held back by LEAP_MAX_NS of the chosen member's CPU time at most.
 * Source   EEVDF's minimum counts the running member, too; here there is one for each CPU.
 * Limits   The host says who runs: of large caches a part of the CPUs is asked.
 */
#ifndef CORE_CHOICE_H
#define CORE_CHOICE_H

#include "borrow.h"

/* Whom a place would run. */
struct choice {
	struct tree_node __arena *task; /* NULL: nobody waits */
	struct tree_node __arena *pays; /* the seat that was picked: the task's own, or its domain's */
	struct tree_node __arena *running; /* as given: the task that may go on; NULL: none */
	struct tree_node __arena *running_seat; /* that with which it competes */
	struct group __arena *from; /* in which the accounts begin to decide */
	u64 due_ns; /* its expired due time if that is why, else NEVER_NS */
	u64 waited_ns; /* how long the task has waited, if that is why, else 0 */
	struct group __arena *leaps_in; /* whose minimum has leapt, see choice_move_on(); NULL: none has */
	u64 leaps_from; /* as far as there it may be held back */
	u64 slice_ns; /* set by the caller: by how much of it one that goes on may be ahead of the first, see place.h and hot.h, */
	u64 ahead; /* how far the one that is asked is, in virtual time, */
	u64 least_ahead; /* and the one that has been found */
	u8 looks; /* set by the caller: virtual times do not move on, whoever is chosen */
	u8 defers; /* set by the caller: they move on in place_accept, if the choice is one of several and the best */
	u8 is_busy; /* set by the caller where there are several CPUs: for another one somebody has just waited, or does */
	u8 is_alone; /* set by the caller where there are several CPUs: nobody of another place waits for this one */
};

/* How far, as its own CPU time, a member may be ahead because of what nobody else could use: the others had a CPU each. */
#define LEAP_MAX_NS 64000000ULL

/*
 * The minimum of a group moves on to the one of those that wait. On several CPUs others of the group may run meanwhile, with
 * smaller virtual times: beside a light task, which comes far with each slice, the minimum would leap over them. They would be
 * owed that, and sleepers that wake at the minimum would stand behind them each time. The host, which knows who runs, holds it
 * back (choice_hold_back()), but for LEAP_MAX_NS: what nobody else could use is not owed for ever.
 */
static __always_inline void choice_move_on(struct choice __arena *c, struct group __arena *g,
					   const struct tree_node __arena *n, u64 vtime)
{
	u64 most_ns = LEAP_MAX_NS + g->seats_ahead_ns;

	if (vtime_before(g->vmin + vtime_of_ns(LAG_MAX_NS, WEIGHT_ONE), vtime)) {
		c->leaps_in = g;
		c->leaps_from = vtime_max(g->vmin, vtime - vtime_of_ns(most_ns, node_weight(n)));
	}
	g->vmin = vtime;
}

/*
 * Holds a minimum that has leapt back to a member that runs on another CPU: what is above `runs`, charged but for `ran_ns`. That
 * goes on for a part of a slice before it is the turn of one that wakes, as beside members of its own weight.
 */
core_fn choice_hold_back(struct choice __arena *c in_arena, struct tree_node __arena *runs in_arena,
			 u64 ran_ns)
{
	struct group __arena *g = c->leaps_in;
	struct tree_node __arena *n = tree_member_above(runs, g);
	u64 vtime;

	if (!n || !n->active || g->node.kind != NODE_FAIR)
		return 0;
	vtime = n->vtime + vtime_of_ns(ran_ns + LAG_MAX_NS / 2, node_weight(n));
	vtime = vtime_max(vtime, c->leaps_from);
	if (vtime_before(vtime, g->vmin))
		g->vmin = vtime;
	return 0;
}

#endif
