/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Limits: what an account may have at most, however much is free.
 *
 * Problem  A share says what an account has at least. Whoever sells CPU time, or keeps a program from what it need not have, says
 *          what it has at most: so much in each period.
 * Rule     A limit has a budget. Each period fills it up by the quota; what was not used stays, up to a burst beside the quota. A
 *          task that is about to run takes from the budget of each limit above it what it may use before it is compared again: a
 *          slice, or what is left. What it has not used it gives back when it stops; what it has had beyond that, the budgets owe.
 *          While a budget is used up the host holds the account's tasks: they are in no queue, as if they slept.
 *          One that has been held for LIMIT_HOLDS_NS runs all the same, for LIMIT_LEAST_NS: the kernel would take the wait for a
 *          stall. So does one that is chosen where nobody can hold it.
 * Bound    In n periods an account has at most n quotas and a burst, LIMIT_LEAST_NS for each task held for so long, and what
 *          its CPUs could not end in time: that is owed, up to LIMIT_OWES_NS, so over many periods it has no more than its quotas.
 * Source   Turner, Rao and Rao, CPU bandwidth control for CFS (2010); cpu.max and cpu.max.burst of Linux' cgroups.
 * Limits   Tasks that a quota lets go wake at a time, as those do that a timer wakes.
 */
#ifndef CORE_LIMIT_H
#define CORE_LIMIT_H

#include "types.h"

/* The longest that a task is held, and what it then runs for. */
#define LIMIT_HOLDS_NS 10000000000ULL
#define LIMIT_LEAST_NS 100000ULL
/* What is owed beyond that is forgotten when a period begins: it would else keep those from running who come after these. */
#define LIMIT_OWES_NS 100000000

struct limit {
	u64 quota_ns; /* 0: there is no limit */
	u64 period_ns;
	u64 burst_ns;
	s64 left_ns; /* of the budget; negative: owed */
	u64 began_ns; /* when the period began */
	u64 since_ns; /* when the limit was set */
	u64 timer_at_ns; /* when the host looks at those that it holds; 0: it need not. Kept by the host, as the next ones */
	u32 nr_held; /* tasks */
	u32 turn; /* the shard of which one is let go next */
};

/* Sets a limit, in the place of another one or none: a period begins, with a full budget. */
static __always_inline void limit_set(struct limit __arena *l, u64 quota_ns, u64 period_ns,
				      u64 burst_ns, u64 now_ns)
{
	l->since_ns = now_ns;
	l->began_ns = now_ns;
	l->left_ns = quota_ns;
	l->period_ns = period_ns;
	l->burst_ns = burst_ns;
	l->quota_ns = quota_ns;
}

/* When the budget is next filled up. */
static __always_inline u64 limit_fills_at_ns(const struct limit __arena *l)
{
	return l->began_ns + l->period_ns;
}

/*
 * Fills up the budget for each period that has ended. Several CPUs may do so at a time, without a lock: one of them moves the
 * period on, and what others take meanwhile is not lost.
 */
static __always_inline void limit_fill(struct limit __arena *l, u64 now_ns)
{
	u64 began_ns = l->began_ns, period_ns = l->period_ns ?: 1, nr;
	s64 left_ns, full_ns = l->quota_ns + l->burst_ns;

	if ((s64)(now_ns - began_ns) < (s64)period_ns)
		return;
	nr = (now_ns - began_ns) / period_ns;
	if (__sync_val_compare_and_swap(&l->began_ns, began_ns, began_ns + nr * period_ns) !=
	    began_ns)
		return;
	left_ns = l->left_ns;
	if (left_ns < -LIMIT_OWES_NS) {
		__sync_fetch_and_add(&l->left_ns, -LIMIT_OWES_NS - left_ns);
		left_ns = -LIMIT_OWES_NS;
	}
	if (left_ns >= full_ns)
		return;
	if (nr > (u64)(full_ns - left_ns) / l->quota_ns)
		__sync_fetch_and_add(&l->left_ns, full_ns - left_ns);
	else
		__sync_fetch_and_add(&l->left_ns, nr * l->quota_ns);
}

/* Whether its budget is used up. */
static __always_inline int limit_binds(struct limit __arena *l, u64 now_ns)
{
	if (!l->quota_ns)
		return 0;
	limit_fill(l, now_ns);
	return l->left_ns <= 0;
}

/* Takes up to `most_ns` of what is left. Returns how much. Of two CPUs at a time one has it. */
static __always_inline u64 limit_take_left(struct limit __arena *l, u64 most_ns, u64 now_ns)
{
	s64 left_ns;
	u64 ns;

	if (!l->quota_ns)
		return most_ns;
	limit_fill(l, now_ns);
	left_ns = __sync_fetch_and_add(&l->left_ns, -(s64)most_ns);
	ns = left_ns <= 0 ? 0 : (u64)left_ns < most_ns ? (u64)left_ns : most_ns;
	if (ns < most_ns)
		__sync_fetch_and_add(&l->left_ns, most_ns - ns);
	return ns;
}

/* Takes from the budget; negative: gives back, but for what it had no room for when it was filled up meanwhile. */
static __always_inline void limit_take(struct limit __arena *l, s64 ns)
{
	s64 over_ns;

	if (!l->quota_ns)
		return;
	over_ns = __sync_fetch_and_add(&l->left_ns, -ns) - ns - (s64)(l->quota_ns + l->burst_ns);
	if (ns < 0 && over_ns > 0)
		__sync_fetch_and_add(&l->left_ns, -over_ns);
}

#endif
