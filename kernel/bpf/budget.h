/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Budgets: what limits of cgroups leave a task that runs (core/limit.h). A task takes from those of its cgroup and of all above
 * it, by what the kernel calls its cgroup, whatever seat pays for it.
 *
 *          One that rides in another one's seat (inherit.h) takes from its own cgroup's, but nothing if either of the two cgroups
 *          has no limit: who is limited and holds a lock runs for those that are not, and no limit is passed on with a seat.
 * Limits   A task with a reservation of its own has what was reserved: limits of cgroups above do not count, as they do not for
 *          SCHED_DEADLINE.
 */
#ifndef CONSORT_BUDGET_H
#define CONSORT_BUDGET_H

#include "state.h"

/* The most that is granted at a time: it is kept in 32 bits. */
#define GRANT_MAX_NS 1000000000ULL

/* How many cgroups have a limit: on most machines none has, and nothing is looked at. */
u32 nr_limits;

/* Whether a cgroup, or one above it, has a limit. */
static __always_inline bool is_limited(const struct group_set __arena *set)
{
	while (set && can_loop) {
		if (set->limit.quota_ns)
			return true;
		set = set->parent;
	}
	return false;
}

/* The cgroup from whose budget, and from those above, a task that rides takes; NULL: from none. */
static __attribute__((noinline)) u64 budget_of_rider(struct task __arena *t)
{
	struct group_set __arena *own = t->own.home;

	return is_limited(t->home) && is_limited(own) ? (u64)own : 0;
}

/* The same of any task. */
static __always_inline struct group_set __arena *budget_of(struct task __arena *t)
{
	return t->rides ? (struct group_set __arena *)budget_of_rider(t) : t->home;
}

/* Takes so much from the budgets below `until`, from the task's cgroup on; negative: gives back. */
static __always_inline void budget_take(struct group_set __arena *set,
					const struct group_set __arena *until, s64 ns)
{
	while (set && set != until && can_loop) {
		limit_take(&set->limit, ns);
		set = set->parent;
	}
}

/*
 * Has the budgets pay for what a task has had, and gives back what it was granted and has not used. Also for one that has not
 * run: 0.
 */
core_fn budget_charge(struct task __arena *t in_arena, u64 ran_ns)
{
	s64 ns = ran_ns - t->granted_ns;

	t->granted_ns = 0;
	budget_take(budget_of(t), NULL, ns);
	return 0;
}

/* A task stops, or does not begin: what it was granted is given back. */
static __always_inline void budget_give_back(struct task __arena *t)
{
	if (t->granted_ns)
		budget_charge(t, 0);
}

/*
 * A task begins to run, for `most_ns` at most: it is granted so much of that as all budgets have, LIMIT_LEAST_NS at least. Where
 * nothing limits it, nothing is: 0.
 */
core_fn budget_grant(struct task __arena *t in_arena, u64 most_ns, u64 now_ns)
{
	struct group_set __arena *own = budget_of(t), *set = own;
	u64 ns = most_ns < GRANT_MAX_NS ? most_ns : GRANT_MAX_NS, had_ns;
	bool limited = false;

	budget_give_back(t);
	while (set && can_loop) {
		limited |= set->limit.quota_ns != 0;
		had_ns = ns;
		ns = limit_take_left(&set->limit, had_ns, now_ns);
		if (ns < had_ns)
			budget_take(own, set, -(s64)(had_ns - ns));
		set = set->parent;
	}
	if (!limited)
		return 0;
	if (ns < LIMIT_LEAST_NS) {
		budget_take(own, NULL, LIMIT_LEAST_NS - ns);
		ns = LIMIT_LEAST_NS;
	}
	t->granted_ns = ns;
	return 0;
}

/* The cgroup whose budget is used up, of those from which the task would take; NULL: none. An address: Linux 6.18 wants a number. */
__weak __noinline u64 budget_binds(struct task __arena *t in_arena, u64 now_ns)
{
	struct group_set __arena *set = budget_of(t);

	while (set && can_loop) {
		if (limit_binds(&set->limit, now_ns))
			return (u64)set;
		set = set->parent;
	}
	return 0;
}

#endif
