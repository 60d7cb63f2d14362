/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Plan: a member runs in the intervals that were laid down for it beforehand.
 *
 * Problem  A program knows long before when each of its threads should run: a frame is to be shown at its time, not when
 *          its turn has come.
 * Rule     A plan is a list of intervals, relative to a trigger. From the beginning of an interval to its end its member is
 *          due, as one of a domain that has published a due event: before all others of its group, and ahead of its
 *          share, as far as that may borrow (borrow.h). A member that says that it is done with its interval's work is
 *          due no more in it; one that sleeps is due again when it wakes. A plan may begin anew after its last interval.
 * Bound    A member that wants the CPU at the beginning of an interval has it then, unless its group is ahead of its share by
 *          all that it may borrow, or an earlier interval, or due event of another group, is still served. Which
 *          of these it was is counted.
 * Source   003 sections 3.2.5 (frame schedule, explicit schedule) and 3.3 (Explicit Plan).
 * Limits   Intervals are looked at when somebody chooses: of one that ends meanwhile nothing is seen but that it is over.
 */
#ifndef CORE_FUNCTION_PLAN_H
#define CORE_FUNCTION_PLAN_H

#include "../role.h"

/* Intervals of one plan, at most; a power of two. */
#define PLAN_INTERVALS_MAX 16384
#define PLAN_STEPS 15 /* halves of a plan until one interval is left */

/* The number of the first interval that is not over `at_ns` after the plan's beginning; that of all, if none is. */
static __always_inline u32 plan_find(const struct plan __arena *p, u64 at_ns)
{
	u32 low = 0, high = p->nr;

	for (u32 step = 0; step < PLAN_STEPS && can_loop; step++) {
		u32 middle = (low + high) / 2;

		if (low >= high)
			break;
		if (p->at[middle].end_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* There is no interval to come. */
static __always_inline void plan_rest(struct role __arena *r)
{
	r->from_ns = NEVER_NS;
	r->until_ns = NEVER_NS;
}

/* The role has got another plan, or none. */
static __always_inline void plan_forget(struct role __arena *r)
{
	r->from_ns = NEVER_NS;
	r->until_ns = 0;
}

/*
 * Makes the interval that is on at `now_ns`, or the next one, the role's. Returns how many were passed over: the one that was
 * the role's before, if it is over, is not among them.
 */
static __always_inline u64 plan_advance(struct role __arena *r, u64 zero_ns, u64 now_ns)
{
	const struct plan __arena *p = r->plan;
	u64 at_ns = now_ns > zero_ns ? now_ns - zero_ns : 0, round = 0, before = r->interval;
	int is_new = r->zero_ns != zero_ns || r->from_ns == NEVER_NS;
	u32 i;

	if (p->repeat_ns) {
		round = at_ns / p->repeat_ns;
		at_ns -= round * p->repeat_ns;
	}
	i = plan_find(p, at_ns);
	if (i >= p->nr && p->repeat_ns) {
		round++;
		i = 0;
	}
	r->zero_ns = zero_ns;
	r->interval = round * p->nr + i;
	r->has_run = 0;
	r->is_done = 0;
	if (i < p->nr) {
		zero_ns += round * p->repeat_ns;
		r->from_ns = zero_ns + p->at[i].start_ns;
		r->until_ns = zero_ns + p->at[i].end_ns;
	} else {
		plan_rest(r);
	}
	return is_new || r->interval <= before ? 0 : r->interval - before - 1;
}

#endif
