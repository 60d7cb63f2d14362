/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Period: of a group's members the one runs whose period ends first.
 *
 * Problem  Threads that must each be done with something by the end of their periods, of different lengths.
 * Rule     A member has a budget of CPU time in each of its periods. The one whose period ends first goes first. One that has
 *          used its budget up is put off: its period ends one period later, and it has another budget; where that is over
 *          already, a period begins then. One that wakes after its period has ended begins a period, too; so does one that has
 *          more left than its rate makes of the rest.
 * Bound    While the budgets of all members are, in sum of budget / period, no more than what their group has, each has its
 *          budget by the end of its period, to within a slice; one that wants more does not delay the others.
 * Source   earliest deadline first (Liu, Layland 1973); the constant bandwidth server (Abeni, Buttazzo 1998) for the budget.
 *          Not decide/period.h, whose members are accounts that have rates: these here share one.
 * Limits   A budget is looked at when its member is compared. A period that ends while its budget is not used up is not
 *          moved: its member is late, and goes first.
 */
#ifndef CORE_FUNCTION_PERIOD_H
#define CORE_FUNCTION_PERIOD_H

#include "../role.h"

/* Who has no period goes after all that have. */
#define NO_PERIOD (1ULL << 62)
/* A member's period ends no later than so far ahead, however much more than its budgets it has had: two hours and a half. */
#define PERIOD_AHEAD_MAX_NS (1ULL << 43)

/* The budget of a period that begins now; `part` of `all` is what its thread weighs. */
static __always_inline u64 period_budget_ns(const struct role __arena *r, u64 part, u64 all)
{
	u64 ns = r->budget_ns;

	if (!ns)
		ns = all > part ? (r->period_ns >> 10) * (part >> 4) / (all >> 4) << 10 :
				  r->period_ns;
	return ns ? ns : 1;
}

/* Whether more is left than the rate makes of the rest of the period. In 2^-10 of ns: products fit. */
static __always_inline int period_is_idle(const struct role __arena *r, u64 budget_ns, u64 now_ns)
{
	u64 rest = (r->ends_ns - now_ns) >> 10, left = (u64)r->left_ns >> 10;

	return left * (r->period_ns >> 10) > rest * (budget_ns >> 10);
}

/* Its thread wants the CPU from now on. */
static __always_inline void period_begin(struct role __arena *r, u64 budget_ns, u64 now_ns)
{
	if (!r->period_ns)
		return;
	if (now_ns < r->ends_ns && !period_is_idle(r, budget_ns, now_ns))
		return;
	r->ends_ns = now_ns + r->period_ns;
	r->left_ns = budget_ns;
}

/* It has had `ns` of CPU time. */
static __always_inline void period_use(struct role __arena *r, u64 budget_ns, u64 ns, u64 now_ns)
{
	u64 farthest_ns = now_ns + PERIOD_AHEAD_MAX_NS, periods;

	if (!r->period_ns)
		return;
	r->left_ns -= ns;
	if (r->left_ns > 0)
		return;
	periods = (u64)-r->left_ns / budget_ns + 1;
	r->left_ns += periods * budget_ns;
	if (periods < PERIOD_AHEAD_MAX_NS / r->period_ns)
		r->ends_ns += periods * r->period_ns;
	else
		r->ends_ns = farthest_ns;
	if (r->ends_ns > farthest_ns)
		r->ends_ns = farthest_ns;
	if (r->ends_ns <= now_ns)
		r->ends_ns = now_ns + r->period_ns;
}

static __always_inline u64 period_key(const struct role __arena *r)
{
	return r->period_ns ? r->ends_ns : NO_PERIOD + r->number;
}

#endif
