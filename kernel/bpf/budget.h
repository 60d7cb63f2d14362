/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Budgets: what limits of cgroups leave a task that runs (core/limit.h). A task takes from those of its cgroup and of all above
 * it, by what the kernel calls its cgroup, whatever seat pays for it.
 *
 *          One that rides in another one's seat (inherit.h) takes from its own cgroup's, but nothing if either of the two cgroups
 *          has no limit: a limited task that holds a lock runs for those that are not, and no limit is passed on with a seat.
 *          A thread that has reserved for itself takes from its cgroup's budget as the others do: what is promised ends with it.
 * Limits   Where a cgroup has reserved, limits of those above it do not count.
 */
#ifndef CONSORT_BUDGET_H
#define CONSORT_BUDGET_H

#include "state.h"

/* Something is left of a budget, and tasks are held for which there was nothing, see limits.h. */
__weak int limit_freed(struct group_set __arena *set in_arena);

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

/* The cgroup of a task whose own reservation is its account. An address. */
static inline u64 cgroup_of_reserved(const struct task __arena *t);

/*
 * The cgroup from whose budget, and from those above, a task takes that is not in its own account; NULL: from none. An address.
 * Global: of a static function Linux 6.18's verifier says that it has a bug ("unexpected regs").
 */
__weak __noinline u64 budget_elsewhere(struct task __arena *t in_arena)
{
	struct group_set __arena *own = t->own.home;

	if (!t->rides)
		return t->reservation->cgroup ? (u64)t->home : cgroup_of_reserved(t);
	return is_limited(t->home) && is_limited(own) ? (u64)own : 0;
}

/* The same of any task. */
static __always_inline struct group_set __arena *budget_of(struct task __arena *t)
{
	if (t->rides || t->reservation)
		return (struct group_set __arena *)budget_elsewhere(t);
	return t->home;
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
	struct group_set __arena *set = budget_of(t), *freed = NULL;
	u64 now_ns = t->granted_ns ? 0 : bpf_ktime_get_ns();
	s64 ns = ran_ns - t->granted_ns, own_ns;

	t->granted_ns = 0;
	while (set && can_loop) {
		own_ns = ns;
		/* It ran before the limit was there. */
		if (now_ns && ns > (s64)(now_ns - set->limit.since_ns))
			own_ns = now_ns - set->limit.since_ns;
		limit_take(&set->limit, own_ns);
		if (ns < 0 && set->limit.nr_held && set->limit.left_ns > 0)
			freed = set;
		set = set->parent;
	}
	/* Not above: Linux 6.18's verifier finds a bug in itself where a loop calls. Of several limits the highest is looked at. */
	if (freed)
		limit_freed(freed);
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

/* The cgroup whose budget is used up, of those from which the task would take; NULL: none. An address. */
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
