/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Charging: what a task has run is paid by the seat in which it ran, and by every account above that.
 *
 * Every function here is called with the lock of the task's shard held.
 */
#ifndef CONSORT_CHARGE_H
#define CONSORT_CHARGE_H

#include "asks.h"
#include "budget.h"
#include "divide.h"

/* The seat that pays for a task's run: the one that was picked, if it still is its domain's. */
static __always_inline struct tree_node __arena *pays_of(struct task __arena *t)
{
	struct tree_node __arena *n = t->pays;

	if (!in_domain(t))
		return &t->member.node;
	if (n && n->kind == NODE_SEAT && seat_of_node(n)->domain == t->member.seat->domain)
		return n;
	return &t->member.seat->node;
}

/*
 * For how long, up to now, others have waited for a CPU in any of its places: its `busy_ns`. Functions of their own keep the
 * paths of their callers below what Linux 6.18 follows.
 */
core_fn look_busy(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	struct shard __arena *s = shard_at(c->shard);
	u64 busy_ns = live_busy_ns(&s->place.waiters, now_ns), ns;

	for (u32 i = hidden(0); i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = beside(c, cpu, i);

		ns = pl ? live_busy_ns(&pl->waiters, now_ns) : 0;
		if (ns > busy_ns)
			busy_ns = ns;
		if (!s->nr_in_subsets)
			break;
	}
	c->busy_ns = busy_ns;
	return 0;
}

/*
 * On several CPUs: how much of a run, which ends now, was while others waited for the CPU, in its place or its CPU's
 * others. The rest is nobody's loss. On one CPU virtual time itself moves on with a task that runs alone.
 */
static __always_inline u64 owed_part_ns(const struct task __arena *t, u64 ran_ns, u64 now_ns)
{
	struct consort_cpu __arena *c = cpu_at(t->cpu);

	look_busy(c, t->cpu, now_ns);
	return ran_ns < c->busy_ns ? ran_ns : c->busy_ns;
}

/*
 * On several CPUs: what a task has had while nobody waited beside it is nobody's loss, but for those that its limit keeps from
 * running. Up to the limit it pays for that, too.
 */
core_fn charge_within_limit(struct task __arena *t in_arena, u64 ns)
{
	struct tree_node __arena *n = &t->member.node;
	struct group_set __arena *set = t->home;

	while (n->parent && is_limited(set) && can_loop) {
		group_charge(n->parent, n, ns);
		n = &n->parent->node;
		set = set->parent;
	}
	return 0;
}

static __always_inline void charge_spare(struct task __arena *t, struct tree_node __arena *n, u64 ns)
{
	tree_count(n, ns);
	if (nr_limits && !in_domain(t))
		charge_within_limit(t, ns);
}

/* A seat pays for what its task has run until now, and every account above it. */
static __always_inline void seat_pay(struct task __arena *t, u64 ran_ns, u64 now_ns)
{
	struct place __arena *pl = place_at(t->place);
	struct tree_node __arena *n = pays_of(t);
	u64 owed_ns = one_cpu ? ran_ns : owed_part_ns(t, ran_ns, now_ns);

	if (in_domain(t))
		seat_charge(&t->member, n, owed_ns);
	else
		tree_charge(n, owed_ns);
	if (!one_cpu && owed_ns < ran_ns)
		charge_spare(t, n, ran_ns - owed_ns);
	if (in_domain(t)) {
		struct domain __arena *d = domain_in(t->set, t->place);

		coop_charge(d, &t->member, ran_ns);
		if (d->upcoming.queued || d->indebted.top)
			place_refresh(pl, d);
	}
	if (pl->nr_blocked)
		place_unblock(pl, n);
}

/* A member's due event is charged to it. Demoted, too: else it would have its part twice, by its account and by due events. */
static __always_inline void due_pay(struct task __arena *t, u64 ran_ns, u64 now_ns)
{
	if (t->set)
		domain_charge_due(domain_in(t->set, t->place), &t->member, ran_ns, now_ns);
}

core_fn task_charge_ns(struct task __arena *t in_arena, u64 ran_ns, u64 now_ns)
{
	ran_ns = with_what_function_took_ns(t, ran_ns);
	if (nr_limits)
		budget_charge(t, ran_ns);
	due_pay(t, ran_ns, now_ns);
	seat_pay(t, ran_ns, now_ns);
	return 0;
}

/* On several CPUs: one that sleeps was runnable, and without its load its accounts might weigh nothing while it is charged. */
static __always_inline void charge_begin(struct task __arena *t, u64 now_ns)
{
	if (t->member.node.active)
		follow_loads(t, now_ns);
	else
		count_load(t, true);
}

static __always_inline void charge_end(struct task __arena *t)
{
	if (!t->member.node.active)
		count_load(t, false);
}

/* A task whose last run is charged up to this much has been charged when it fell asleep. */
#define CHARGED_NS 100000

/* Whether a task sleeps and has been charged then: what it has run since is charged with its next run. */
static __always_inline bool is_charged(const struct task __arena *t, s64 ran_ns)
{
	return !one_cpu && !t->member.node.active && !t->set && !nr_limits && ran_ns <= CHARGED_NS;
}

/*
 * Charges what the kernel measured since the last time. `total_ns` is the task's sum_exec_runtime; it has just run, or
 * has not run since it was charged.
 */
static __always_inline void task_charge(struct task __arena *t, u64 total_ns, u64 now_ns)
{
	s64 ran_ns = total_ns - t->charged_ns;

	/* Negative: the estimates were too high; that much it will run for nothing. */
	if (ran_ns <= 0 || is_charged(t, ran_ns))
		return;
	t->charged_ns = total_ns;
	task_settle_in(t);
	if (!one_cpu) {
		charge_begin(t, now_ns);
		divide(t, ran_ns);
	}
	/* Most tasks pay for themselves alone. */
	if (one_cpu && !t->set && !nr_limits && !place_at(t->place)->nr_blocked)
		tree_charge(&t->member.node, ran_ns);
	else
		task_charge_ns(t, ran_ns, now_ns);
	if (!one_cpu)
		charge_end(t);
}

/* A task that has run alone for less is charged when it is next compared. */
#define ESTIMATE_MIN_NS 1000000

/* How old the kernel's account of a running task may be: it measures at each tick. */
#define MEASURED_LATE_NS 8000000

/*
 * Charges the running task for what it has had by the clock. What the kernel has measured is used later. Always inline:
 * Linux 6.18 lets functions call each other eight deep.
 */
static __always_inline void charge_by_clock(struct consort_cpu __arena *c, u64 now_ns)
{
	struct task __arena *running = c->running;
	const struct task_struct *p = (const struct task_struct *)running->kernel_task;
	s64 ran_ns = now_ns - c->since_ns - c->estimated_ns;
	s64 most_ns = BPF_CORE_READ(p, se.sum_exec_runtime) + MEASURED_LATE_NS - running->charged_ns;

	/* It may have been chosen long before it began to run: a higher class was there. */
	if (ran_ns > most_ns)
		ran_ns = most_ns;
	if (ran_ns <= 0)
		return;
	c->estimated_ns += ran_ns;
	running->charged_ns += ran_ns;
	if (nr_limits)
		budget_charge(running, ran_ns);
	if (!one_cpu)
		divide(running, ran_ns);
	due_pay(running, ran_ns, now_ns);
	seat_pay(running, ran_ns, now_ns);
}

/* The frame of enqueue, which is the first of the deepest calls, has no room for what it takes. */
static __attribute__((noinline)) void charge_this_cpu(struct consort_cpu __arena *c, u64 now_ns)
{
	/* It may have been chosen, and not have begun to run. */
	if (task_of(bpf_get_current_task_btf()) == c->running)
		charge_by_clock(c, now_ns);
}

/*
 * A task wakes beside a running one, which has not been charged for as long as nobody else wanted the CPU: it is now,
 * so that the one that wakes finds virtual times as they are.
 */
static inline void charge_running(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	s64 ran_ns = now_ns - c->since_ns - c->estimated_ns;

	if (c->running && ran_ns >= ESTIMATE_MIN_NS && cpu == bpf_get_smp_processor_id())
		charge_this_cpu(c, now_ns);
}

#endif
