/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits of cgroups: tasks whose budget is used up are held, and let go when it is filled up again (core/limit.h).
 *
 * Rule     A task is held when it would begin to wait, has run, or has been chosen: it is in no queue and takes no part in its
 *          account, as if it slept; its virtual time stays, and it goes on waiting for as long as it has. With one that has been
 *          chosen all are held that its limit binds in that place: those that are left would else be at the minimum of their
 *          group, and the others forget what they are owed. A held task is in a list of the cgroup whose budget is used up, one
 *          a shard, under the shard's lock. A timer a limit fires at the end of the period, or once somebody gives back what it
 *          was granted, and lets tasks go, those first that have been held for longest: on one CPU all, whose virtual times then
 *          decide; on several, where each would begin at once, as many as the budget lasts for. A timer that cannot be started
 *          holds nobody: tasks run on, for as little as can be.
 * Limits   A task that is held in the kernel keeps what it holds there. One for which a better-placed task waits by a lock whose
 *          holder the kernel knows is let go (inherit.h). Of several shards one after the other lets a task go, however many it
 *          holds. Kernels that refuse BPF timers (PREEMPT_RT): limits are not kept.
 */
#ifndef CONSORT_LIMITS_H
#define CONSORT_LIMITS_H

#include "groups.h"
#include "held.h"
#include "wake.h"

struct limit_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GROUPS_MAX);
	__type(key, u64); /* the cgroup's id */
	__type(value, struct limit_timer);
} limit_timers SEC(".maps");

/* So many tasks are let go at a time; then others have a turn. */
#define RELEASES 64

/* Sees to it that the tasks that a limit holds are looked at. False: the timer cannot be started. */
static inline bool limit_arm(struct group_set __arena *set, u64 at_ns)
{
	u64 id = set->id, armed_for_ns = set->limit.timer_at_ns;
	struct limit_timer *timer;

	if (armed_for_ns && armed_for_ns <= at_ns)
		return true;
	timer = use_timers && !is_dying(bpf_get_smp_processor_id()) ?
			bpf_map_lookup_elem(&limit_timers, &id) :
			NULL;
	if (!timer)
		return false;
	set->limit.timer_at_ns = at_ns;
	if (!bpf_timer_start(&timer->timer, at_ns, TIMER_ABS))
		return true;
	/* What it was armed for before still holds. */
	set->limit.timer_at_ns = armed_for_ns;
	count_on(bpf_get_smp_processor_id())->timer_failures++;
	return armed_for_ns;
}

/* Whose budget keeps a task from running; NULL: nobody's does. */
static __always_inline struct group_set __arena *bound_by(struct task __arena *t, u64 now_ns)
{
	return (struct group_set __arena *)budget_binds(t, now_ns);
}

/* Holds a task that does not run, and is bound, as one that is held since then. Returns whether it does: a timer lets it go. */
core_fn hold(struct task __arena *t in_arena, struct group_set __arena *set in_arena, u64 since_ns)
{
	t->member.waiter.since_ns = since_ns;
	hold_last(t, set);
	if (!limit_arm(set, limit_fills_at_ns(&set->limit))) {
		unhold(t);
		return 0;
	}
	count_on(bpf_get_smp_processor_id())->held++;
	return 1;
}

/* What a task does that is held: it ceases to be runnable, for all that the scheduler knows. */
static __always_inline void rest_held(struct task __arena *t, u64 now_ns)
{
	budget_give_back(t);
	if (t->member.node.active && has_function(t))
		role_sleeps(t, now_ns);
	task_deactivate(t);
	task_end(t);
}

/* A task is enqueued that is not to run now. Returns whether it is held instead. */
core_fn hold_enqueued(struct task __arena *t in_arena, u64 now_ns)
{
	struct group_set __arena *by;

	if (t->held_by)
		unhold(t);
	by = bound_by(t, now_ns);
	if (!by || !hold(t, by, now_ns))
		return 0;
	rest_held(t, now_ns);
	return 1;
}

/* The same of one that waits, and has done so since then: it goes on. One that has waited for too long runs, for a little. */
static __always_inline bool hold_waiting(struct task __arena *t, u64 now_ns)
{
	struct group_set __arena *by = bound_by(t, now_ns);
	u64 since_ns = t->member.waiter.since_ns;

	if (!by || (s64)(now_ns - since_ns) >= (s64)LIMIT_HOLDS_NS)
		return false;
	/* Its place in the list of those that wait is the one in that of those that are held. */
	task_take(t);
	if (!hold(t, by, since_ns)) {
		task_wait_on(t, since_ns, now_ns);
		return false;
	}
	rest_held(t, now_ns);
	return true;
}

/* So many are held at once, as one of them has been chosen. */
#define HOLDS 64

/* The first task that waits in a group or below it; NULL: none, or it is a domain's affair. */
static __always_inline struct task __arena *first_below(struct group __arena *g)
{
	struct tree_node __arena *n = group_first(g);

	while (n && n->kind >= NODE_FAIR && can_loop)
		n = group_first(group_of(n));
	return n && n->kind == NODE_TASK ? task_of_node(n) : NULL;
}

/* Whether the first that waits in a group or below it is behind `t`, which does not wait, where their accounts meet. */
static __always_inline bool first_is_behind(struct group __arena *g, struct task __arena *t)
{
	struct tree_node __arena *n = group_first(g), *own;

	while (n && can_loop) {
		own = tree_member_above(&t->member.node, g);
		if (!own || own != n)
			return own && vtime_before(n->vtime, own->vtime);
		if (n->kind < NODE_FAIR)
			break;
		g = group_of(n);
		n = group_first(g);
	}
	return false;
}

/* Holds those that wait below a group and are bound; of a task that has run only those that are ahead of it. */
static __always_inline void hold_waiters(struct group __arena *g, struct task __arena *ran,
					 u64 now_ns)
{
	for (u32 i = hidden(0); i < HOLDS && can_loop; i = hidden(i + 1)) {
		struct task __arena *t = first_below(g);

		if (!t || (ran && first_is_behind(g, ran)) || !hold_waiting(t, now_ns))
			break;
	}
}

/*
 * The same of one that has run until now, and gives back what it did not use; the kernel enqueues it in a moment. Those that are
 * ahead of it are held first; else it is, before another one is chosen: the one that is behind would forget what it is owed.
 */
core_fn hold_stopped(struct task __arena *t in_arena, bool is_runnable, u64 now_ns)
{
	struct group_set __arena *by;

	budget_give_back(t);
	by = is_runnable ? bound_by(t, now_ns) : NULL;
	if (!by)
		return 0;
	if (!in_domain(t))
		hold_waiters(group_in(by, t->place), t, now_ns);
	if (!hold(t, by, now_ns))
		return 0;
	rest_held(t, now_ns);
	return 1;
}

/* A CPU has chosen a task. Returns whether it is held instead, with those that its limit binds there: the CPU chooses again. */
core_fn hold_chosen(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	struct task __arena *t = task_of_node(c->choice.task);

	if (!t->member.node.ready.queued || !hold_waiting(t, now_ns))
		return 0;
	hold_waiters(group_in(t->held_by, t->place), NULL, now_ns);
	kick(cpu, KICK(PREEMPT));
	return 1;
}

/* A held task sleeps, ends, or is given to us anew. */
core_fn hold_no_more(struct task __arena *t in_arena)
{
	budget_give_back(t);
	if (t->held_by)
		unhold(t);
	return 0;
}

/* A held task has come to another account, without the kernel's word: it is looked at first, and soon. */
core_fn held_moved(struct task __arena *t in_arena)
{
	struct group_set __arena *set = t->held_by;

	unhold(t);
	hold_first(t, set);
	limit_arm(set, bpf_ktime_get_ns());
	return 0;
}

/*
 * A task is let go. It did not sleep, but waited: it is where it was among those that were held with it, whichever of them were
 * held first, and has no first turn.
 */
core_fn wake_held(struct task __arena *t in_arena, u64 now_ns)
{
	struct member __arena *m = &t->member;
	u64 since_ns = m->waiter.since_ns;

	if (t->owes_ns)
		pay(t);
	charge_running(cpu_at(t->cpu), t->cpu, now_ns);
	task_settle_in(t);
	if (in_domain(t))
		m->own_rest_vtime = fair_sleepers_vmin(m->seat->node.parent);
	else
		m->node.rest_vtime = fair_sleepers_vmin(m->node.parent);
	task_activate(t, now_ns);
	m->node.has_run = 1;
	task_wait_on(t, since_ns, now_ns);
	return 0;
}

enum released {
	RELEASED_NONE,
	RELEASED_ONE,
	RELEASED_OVERDUE, /* whatever the budget has */
	HELD_ELSEWHERE,
};

/*
 * The first of those that a limit holds in a shard, if it may go: it wakes, unless another limit holds it then. Returns an enum
 * released.
 */
static __always_inline int release_first(struct group_set __arena *set, u32 shard, u64 now_ns)
{
	struct held __arena *list = held_in(set, shard);
	struct group_set __arena *by;
	struct task __arena *t;
	bool is_overdue;
	u64 since_ns;

	if (!list->first)
		return RELEASED_NONE;
	t = task_of_node(&outer_of(list->first, struct member, waiter)->node);
	since_ns = t->member.waiter.since_ns;
	is_overdue = (s64)(now_ns - since_ns) >= (s64)LIMIT_HOLDS_NS;
	by = is_overdue ? NULL : bound_by(t, now_ns);
	if (by == set && limit_arm(set, limit_fills_at_ns(&set->limit)))
		return RELEASED_NONE;
	unhold(t);
	if (by && hold(t, by, since_ns))
		return HELD_ELSEWHERE;
	wake_held(t, now_ns);
	list->released = t->pid;
	return is_overdue ? RELEASED_OVERDUE : RELEASED_ONE;
}

/* A task that has been let go waits: some CPU looks. */
core_fn tell_released(s32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct task __arena *t;

	USES_ARENA();
	if (!p)
		return 0;
	bpf_rcu_read_lock(); /* timers' programs are verified as ones that may sleep */
	t = task_of(p);
	if (t)
		wake_kick(p, scx_bpf_task_cpu(p), t->place, WAKE_KICK, CPUS_MAX);
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return 0;
}

/* Lets one go that a limit holds in a shard. Returns an enum released. */
core_fn release_one(struct group_set __arena *set in_arena, u32 shard)
{
	struct shard __arena *s = shard_at(shard);
	unsigned long flags;
	int released;
	s32 pid;

	USES_ARENA();
	bpf_local_irq_save(&flags);
	lock_take(&s->lock);
	released = release_first(set, shard, bpf_ktime_get_ns());
	pid = held_in(set, shard)->released;
	lock_release(&s->lock);
	bpf_local_irq_restore(&flags);
	if (released == RELEASED_ONE || released == RELEASED_OVERDUE)
		tell_released(pid);
	return released;
}

/*
 * How many are let go at once. On several CPUs each would begin at once, and those that come first would have all of the budget,
 * period by period: as many as it lasts for, then. The others are next.
 */
static __always_inline u32 releases_of(const struct group_set __arena *set)
{
	s64 left_ns = set->limit.left_ns;
	u64 nr = left_ns > 0 ? left_ns / (tunables.granularity_ns ?: 1) + 1 : 1;

	return one_cpu || nr > RELEASES ? RELEASES : nr;
}

/* Lets some go, from one shard after the other. */
core_fn release_some(struct group_set __arena *set in_arena, u32 nr)
{
	u32 shard = set->limit.turn, nr_empty = 0;

	USES_ARENA();
	while (nr && nr_empty < topology.nr_shards && can_loop) {
		int released = release_one(set, shard);

		nr_empty = released == RELEASED_NONE ? nr_empty + 1 : 0;
		nr -= released == RELEASED_ONE;
		shard = shard + 1 < topology.nr_shards ? shard + 1 : 0;
	}
	set->limit.turn = shard;
	return 0;
}

static int limit_timer_fired(void *map, u64 *key, struct limit_timer *timer)
{
	struct group_set __arena *set = find_group_set(*key);
	u64 now_ns = bpf_ktime_get_ns(), next_ns;

	if (set == root_set || set->id != *key)
		return 0;
	set->limit.timer_at_ns = 0;
	if (set->limit.quota_ns)
		limit_fill(&set->limit, now_ns);
	release_some(set, set->limit.quota_ns ? releases_of(set) : RELEASES);
	while (set->limit.nr_held && can_loop) {
		next_ns = limit_fills_at_ns(&set->limit);
		if (!set->limit.quota_ns || (one_cpu && set->limit.left_ns > 0))
			next_ns = now_ns;
		else if (set->limit.left_ns > 0 && next_ns > now_ns + tunables.granularity_ns)
			next_ns = now_ns + tunables.granularity_ns;
		if (limit_arm(set, next_ns))
			break;
		release_some(set, RELEASES);
	}
	return 0;
}

/* Something is left of a budget: those that are held may have it. */
core_fn limit_freed(struct group_set __arena *set in_arena)
{
	limit_arm(set, bpf_ktime_get_ns());
	return 0;
}

/* A limit has come, or another one in its place. False: there is no room for it, and it is not kept. */
static inline bool limit_timer_make(u64 id)
{
	struct limit_timer fresh = {}, *timer = bpf_map_lookup_elem(&limit_timers, &id);

	if (timer)
		return true;
	if (bpf_map_update_elem(&limit_timers, &id, &fresh, BPF_NOEXIST))
		return false;
	timer = bpf_map_lookup_elem(&limit_timers, &id);
	return timer && !bpf_timer_init(&timer->timer, &limit_timers, CLOCK_MONOTONIC) &&
	       !bpf_timer_set_callback(&timer->timer, limit_timer_fired);
}

/* More is none: the kernel says that by the greatest number. */
#define QUOTA_MAX_US (1ULL << 44)

/* A cgroup has at most `quota_us` in each `period_us`; of what it does not use it saves up `burst_us`. */
static inline void limit_become(struct group_set __arena *set, u64 period_us, u64 quota_us,
				u64 burst_us)
{
	bool is_none = quota_us > QUOTA_MAX_US || !quota_us || !period_us;
	/* Those that run there take from it when they are next compared: now. */
	bool comes = !is_none && !set->limit.quota_ns;

	if (set == root_set || (is_none && !set->limit.quota_ns))
		return;
	if (!is_none && !limit_timer_make(set->id)) {
		count_on(bpf_get_smp_processor_id())->timer_failures++;
		return;
	}
	if (is_none) {
		__sync_fetch_and_add(&nr_limits, -1);
		set->limit.quota_ns = 0;
	} else {
		if (!set->limit.quota_ns)
			__sync_fetch_and_add(&nr_limits, 1);
		limit_set(&set->limit, quota_us * 1000, period_us * 1000, burst_us * 1000,
			  bpf_ktime_get_ns());
	}
	/* Those that are held may go now. */
	if (set->limit.nr_held)
		limit_arm(set, bpf_ktime_get_ns());
	for (u32 cpu = hidden(0); comes && cpu < topology.nr_cpus && can_loop; cpu = hidden(cpu + 1))
		kick(cpu, KICK(PREEMPT));
}

static inline u64 cgroup_of_reserved(const struct task __arena *t)
{
	const struct task_struct *p = (const struct task_struct *)t->kernel_task;
	const struct cgroup_subsys_state *css = p ? &BPF_CORE_READ(p, sched_task_group)->css : NULL;

	return css ? (u64)group_set_of(BPF_CORE_READ(css, cgroup)) : 0;
}

/* A cgroup goes, and nobody is in it. */
static inline void limit_end(struct group_set __arena *set)
{
	u64 id = set->id;

	if (set->limit.quota_ns)
		__sync_fetch_and_add(&nr_limits, -1);
	bpf_map_delete_elem(&limit_timers, &id);
}

SEC("struct_ops/consort_cgroup_set_bandwidth")
void BPF_PROG(consort_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
	      u64 burst_us)
{
	USES_ARENA();
	struct group_set __arena *set = find_group_set(cgrp->kn->id);

	if (set->id == cgrp->kn->id)
		limit_become(set, period_us, quota_us, burst_us);
}

#endif
