/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Compare: when a task that is about to run is compared again with those that wait.
 *
 * Problem  A due event must not wait for the end of somebody's slice, nor a slice be cut for an event that is not entitled to it.
 * Rule     At the end of its slice if others wait, or at the next due time of a domain that may then run. A domain that is
 *          behind gets the CPU at its due time; one that is ahead, when the running task has caught up. A seat that borrows
 *          is compared as soon as its due event is done. On several CPUs an event that is due already, and had to wait for
 *          the running task (place.h), is looked at again after one task's slice.
 * Bound    A task runs for a slice at most while others wait.
 * Source   000 Figure 2.17.
 * Limits   The host's timer may be late.
 */
#ifndef CORE_COMPARE_H
#define CORE_COMPARE_H

#include "place.h"

/*
 * Whether a seat that is about to have the CPU is ahead of somebody who waits, and so has it for a due event alone: it gives
 * way as soon as that is done. With a slice for each, due events would take the CPU until the window is used up.
 */
core_fn place_borrows(struct place __arena *pl in_arena, struct tree_node __arena *n in_arena)
{
	while (can_loop) {
		struct group __arena *g = n->parent;
		struct tree_node __arena *first;

		if (!g || g == &pl->top || g->node.kind != NODE_FAIR)
			break;
		first = group_first(g);
		if (first && first != n && vtime_before(first->vtime, n->vtime))
			return 1;
		n = &g->node;
	}
	return 0;
}

/* When the slice ends of a task that is about to run; where nobody waits it does not. */
static __always_inline u64 place_slice_ends_at_ns(struct place __arena *pl, u64 now_ns, u64 slice)
{
	return place_head(pl)->ready.top ? now_ns + slice : NEVER_NS;
}

/*
 * When the task that is about to run in the seat `pays` should be compared again: the end of its slice if others wait, or
 * the next due time of a domain that may run then. A domain that is behind gets the CPU at its due time; one that is ahead,
 * when the running task has caught up (000 Figure 2.17).
 */
static __always_inline u64 place_compare_at_ns(struct place __arena *pl,
					       struct tree_node __arena *pays, u64 now_ns, u64 slice)
{
	struct heap_link __arena *upcoming = pl->due.top;
	u64 at_ns = place_slice_ends_at_ns(pl, now_ns, slice), due_ns;

	if (!place_has_domains(pl) && pays->kind != NODE_SEAT)
		return at_ns;
	if (pays->kind == NODE_SEAT && place_borrows(pl, pays))
		at_ns = now_ns;
	if (pl->nr_blocked) {
		place_look_unblocks(pl, pays, now_ns);
		due_ns = pl->unblocks_at_ns;
		if (due_ns < at_ns)
			at_ns = due_ns;
	}
	/* Of several CPUs one is found for a member that wakes: only members make room before. */
	if (upcoming && pl->nr_cpus > 1 && pays->kind != NODE_SEAT &&
	    !domain_first_due(domain_of_upcoming(upcoming)))
		return at_ns;
	/* One that is due already has to wait for the running task, by what that is owed. */
	if (upcoming && pl->nr_cpus > 1 && upcoming->major <= now_ns)
		return at_ns < now_ns + pl->quantum_ns ? at_ns : now_ns + pl->quantum_ns;
	return upcoming && upcoming->major < at_ns ? upcoming->major : at_ns;
}

#endif
