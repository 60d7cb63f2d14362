/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Many CPUs: tasks that change shards, CPUs that take work from others when idle or less loaded, CPUs that come and
 * go.
 *
 * Problem  A task may be taken by an idle CPU while the kernel enqueues it elsewhere, changes its affinity, or ends it.
 * Rule     Whoever holds the lock of the shard that t->place names owns the task. Only tasks that wait are taken, and
 *          all that wait have been handed to us by the kernel's enqueue. No two locks are held at once: in
 *          between, the task is inactive, in no queue, and marked by its thief. Any callback that finds it so
 *          clears the mark: then the thief has come too late.
 * Limits   A CPU that finds itself too late looks again at its next choice.
 */
#ifndef CONSORT_SHARDS_H
#define CONSORT_SHARDS_H

#include "held.h"
#include "members.h"
#include "take.h"

/*
 * Takes a task out of its place, to be put into `place`, of another shard maybe: with the last store here whoever
 * holds that shard's lock owns it.
 */
core_fn task_change_shard(struct task __arena *t in_arena, u32 place)
{
	task_take(t);
	if (t->held_by)
		unhold(t);
	task_deactivate(t);
	task_end(t);
	t->member.lead_ns = task_depart(t, false);
	t->on_the_way = 1;
	carry_debt(t, t->set, place);
	*(volatile u16 __arena *)&t->place = place;
	return 0;
}

/* A task that the kernel has moved to another shard's CPU. */
static inline void leave_shard(struct task __arena *t, const struct task_struct *p, u32 place,
			       u64 now_ns)
{
	struct lock __arena *l = task_lock(t);

	t->thief = 0;
	task_charge(t, p->se.sum_exec_runtime, now_ns);
	task_change_shard(t, place);
	lock_release(l);
}

/* So many at most wait for a shard's lock to look at a CPU's own place. */
#define LOOKERS_MAX 4

/*
 * Tasks of a shard's place may run everywhere: where as many want to steal already as there are tasks, they will have
 * taken all that wait before it is our turn. Else hundreds of idle CPUs stand before one lock. So they would for tasks of
 * a CPU's own place, which most of them may not run: there only a few at a time try.
 */
static inline bool becomes_thief(u32 from, struct lock __arena *l)
{
	struct shard __arena *s = shard_at(from);

	if (from >= SHARDS_MAX)
		return lock_queue(l) < LOOKERS_MAX;
	if (*(volatile u32 __arena *)&s->nr_thieves >= s->place.nr_runnable)
		return false;
	__sync_fetch_and_add(&s->nr_thieves, 1);
	return true;
}

static inline void ends_thieving(u32 from)
{
	if (from < SHARDS_MAX)
		__sync_fetch_and_add(&shard_at(from)->nr_thieves, -1);
}

/* A look without the lock, each time anew. */
static inline bool somebody_waits(struct place __arena *pl)
{
	return *(void *volatile __arena *)&place_head(pl)->ready.top;
}

/*
 * So much of a lead a stolen task takes along: a slice, and what others may be behind. What it is ahead besides is ahead of a
 * minimum that was held back for long, beside light tasks; where it comes to it would wait for as many slices of the others.
 */
#define STOLEN_LEAD_MAX_NS (LAG_MAX_NS + LAG_MAX_NS / 2)

/*
 * A place's minimum may be held back for a task that runs (choice.h): by how much CPU time the tasks with which `t` competes there,
 * on that CPU, are ahead of the minimum of its account.
 */
static inline u64 held_back_ns(const struct task __arena *t, u32 place, u32 cpu)
{
	struct task __arena *running = cpu_at(cpu)->running;

	if (in_domain(t))
		return 0;
	return fair_held_back_ns(group_in(t->home, place), running ? &running->member.node : NULL,
				 t->weight);
}

/* A stolen task does not take that along from the place that it has left, */
core_fn lead_of_others_stays(struct task __arena *t in_arena, u32 place, u32 cpu)
{
	u64 ns;

	USES_ARENA();
	ns = held_back_ns(t, place, cpu);
	t->member.lead_ns -= ns < t->member.lead_ns ? ns : t->member.lead_ns;
	if (!in_domain(t) && t->member.lead_ns > STOLEN_LEAD_MAX_NS)
		t->member.lead_ns = STOLEN_LEAD_MAX_NS;
	return 0;
}

/* and has as much in the place that it comes to. */
core_fn lead_of_others_is_had(struct task __arena *t in_arena, u32 cpu)
{
	struct lock __arena *l;

	USES_ARENA();
	l = task_lock(t);
	if (t->thief == cpu + 1)
		t->member.lead_ns += held_back_ns(t, t->place, cpu);
	lock_release(l);
	return 0;
}

/* Steals from `from` for `cpu`: the task is then inactive, in the place where it may wait there, and marked as being stolen. */
static inline struct task_struct *steal_from(u32 from, u32 cpu, bool oldest, u64 now_ns)
{
	struct place __arena *pl = place_at(from);
	struct lock __arena *l = &shard_at(shard_of_place(from))->lock;
	struct choice __arena *best = &cpu_at(cpu)->own_choice;
	u64 promised_most = cpu_at(cpu)->pick.promised_most;
	struct task_struct *p = NULL;
	struct task __arena *t = NULL;

	/*
	 * Somebody may have its tasks out of the queue for a moment, to look at them: then the lock is not free. But where
	 * nobody is runnable, none are: else each idle CPU would stand before one busy lock once for every CPU of the shard.
	 */
	if (!somebody_waits(pl) && (!pl->nr_runnable || !lock_queue(l)) && !somebody_waits(pl))
		return NULL;
	if (!becomes_thief(from, l))
		return NULL;
	lock_take(l);
	if (promised_most)
		take_promised_for(pl, cpu, promised_most, from >= SHARDS_MAX, now_ns);
	else if (oldest)
		take_oldest_for(pl, cpu, from >= SHARDS_MAX || cpu_at(cpu)->pick.faster);
	else
		take_first_for(pl, cpu, now_ns);
	ends_thieving(from);
	if (best->task) {
		t = task_of_node(best->task);
		p = bpf_task_from_pid(t->pid);
		t->thief = p ? cpu + 1 : 0;
		task_change_shard(t, p ? place_for(p, cpu, t->stays, false) : place_of_cpu(cpu));
		lead_of_others_stays(t, from, t->cpu);
	}
	lock_release(l);
	if (p)
		lead_of_others_is_had(t, cpu);
	return p;
}

/*
 * With the lock of the thief's shard held: the loot of `steal_from` is a runnable task here, unless it is not the
 * thief's any more. Then the kernel has enqueued it anew meanwhile, on a CPU of its own choice, or has taken it from us.
 */
static inline bool take_over(struct task __arena *t, const struct task_struct *p, u32 cpu,
			     u64 now_ns)
{
	u32 place;

	if (t->thief != cpu + 1 || t->kernel_task != (u64)p)
		return false;
	t->thief = 0;
	place = place_for(p, cpu, t->stays, true);
	if (t->place != place)
		task_move(t, t->home, t->set, place, t->demoted);
	task_activate(t, now_ns);
	count_on(cpu)->steals++;
	return true;
}

/*
 * The loot of `steal_from` begins to run here if `runs`; or waits here, as it does if the CPU has got something else to
 * run meanwhile.
 */
static inline void put_stolen(struct consort_cpu __arena *c, u32 cpu, struct task_struct *p,
			      bool runs, u64 now_ns)
{
	struct lock __arena *l = &shard_at(c->shard)->lock;
	struct task __arena *t = task_of(p);
	u64 since_ns;

	if (!t)
		return;
	lock_take(l);
	since_ns = t->member.waiter.since_ns;
	if (take_over(t, p, cpu, now_ns)) {
		if (runs && !c->running && may_run_on(t, p, cpu)) {
			task_begin(c, cpu, t, now_ns, true);
			run_here(p, cpu, SLICE_BY_TIMER_NS);
		} else {
			task_wait_on(t, since_ns, now_ns);
		}
	}
	lock_release(l);
	timer_follow(c, cpu);
}

/* The own place of the first of a shard's CPUs from `from` on, but for the one that looks; PLACE_NONE: there is none. */
static __always_inline u32 own_place_from(const struct shard __arena *s, u32 from, u32 cpu)
{
	u64 rest = ~0ULL << from % 64, bits;

	for (u32 i = hidden(from / 64); i < mask_words() && can_loop; i = hidden(i + 1)) {
		bits = s->cpus[i % MASK_WORDS] & rest;
		rest = ~0ULL;
		if (i == cpu / 64)
			bits &= ~(1ULL << cpu % 64);
		if (bits)
			return place_of_cpu(i * 64 + __builtin_popcountll((bits & -bits) - 1));
	}
	return PLACE_NONE;
}

/* The place of a shard that is looked at after another one of it: after its own that of each of its subsets, then its CPUs'. */
static __always_inline u32 place_after(u32 shard, u32 place, u32 cpu)
{
	u32 subset = 0;

	if (is_own(place))
		return own_place_from(shard_at(shard), place - SHARDS_MAX + 1, cpu);
	if (place >= PLACE_SUBSETS)
		subset = place - place_of_subset(shard, 0) + 1;
	if (subset < subsets_of_shard())
		return place_of_subset(shard, subset);
	return own_place_from(shard_at(shard), 0, cpu);
}

/*
 * Where an idle CPU looks after `place`; PLACE_NONE: at first, and at last. It looks in shards in which somebody waits, its own one last:
 * there it chooses from the shard's place and those of subsets itself.
 */
core_fn next_to_steal_from(struct consort_cpu __arena *c in_arena, u32 cpu, u32 place)
{
	u32 shard = c->shard;

	USES_ARENA();
	if (place != PLACE_NONE) {
		shard = shard_of_place(place);
		place = place_after(shard, place, cpu);
		if (place != PLACE_NONE || shard == c->shard)
			return place;
	}
	for (u32 i = hidden(0); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		shard = (shard + 1) % topology.nr_shards;
		if (*(volatile u32 __arena *)&shard_at(shard)->nr_waiting)
			return shard == c->shard ? own_place_from(shard_at(shard), 0, cpu) :
						   place_of_shard(shard);
		if (shard == c->shard)
			break;
	}
	return PLACE_NONE;
}

/*
 * An idle CPU looks for work elsewhere, each from another shard on, so that not all want the same lock. Where nobody waits it reads
 * one word of each shard: a task that begins to wait after that finds this CPU without work (idle.h).
 */
core_fn steal(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	USES_ARENA();
	struct task_struct *p = NULL;
	u32 place = PLACE_NONE;

	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		place = next_to_steal_from(c, cpu, place);
		if (place == PLACE_NONE)
			break;
		p = steal_from(place, cpu, false, now_ns);
		if (p)
			break;
	}
	if (!p)
		return 0;
	put_stolen(c, cpu, p, true, now_ns);
	bpf_task_release(p);
	return 0;
}

/* Where tasks wait for an offline CPU and for no online one: in its own place, or in a subset's. PLACE_NONE: nowhere. */
core_fn bound_place(struct consort_cpu __arena *c in_arena, u32 cpu)
{
	struct shard __arena *s = shard_at(c->shard);

	if (place_head(&c->place)->ready.top)
		return place_of_cpu(cpu);
	for (u32 i = hidden(1); s->nr_in_subsets && i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = beside(c, cpu, i);
		u64 online = 0;

		if (!pl || !place_head(pl)->ready.top)
			continue;
		for (u32 w = hidden(0); w < mask_words() && can_loop; w = hidden(w + 1))
			online |= subset_at(s, i - 1)->cpus[w] & s->online[w];
		if (!online)
			return place_of_subset(c->shard, i - 1);
	}
	return PLACE_NONE;
}

/* Runs a task that waits for an offline CPU, and for no online one, where the kernel has it. */
static inline void run_bound(u32 cpu, u32 here, u64 now_ns)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct lock __arena *l = &shard_at(c->shard)->lock;
	struct choice __arena *best = &cpu_at(here)->own_choice;
	struct task_struct *p = NULL;
	u32 place;

	lock_take(l);
	place = bound_place(c, cpu);
	best->task = NULL;
	if (place != PLACE_NONE)
		place_choose(place_at(place), NULL, NULL, now_ns, best);
	if (best->task) {
		struct task __arena *t = task_of_node(best->task);

		task_take(t);
		p = bpf_task_from_pid(t->pid);
		if (p) {
			cpu = scx_bpf_task_cpu(p);
			insert_task(p, DSQ(LOCAL_ON) | cpu, SLICE_BY_TIMER_NS, 0);
			kick(cpu, 0);
		}
	}
	lock_release(l);
	if (p)
		bpf_task_release(p);
}

/*
 * CPUs that another one has to help. One that goes offline is not asked for its next task any more, and yet does not go
 * until the tasks have run that are bound to it, and until it has looked after the last one has left, be it by the
 * kernel's hand. And none may idle beside work for longer than this takes, whyever it was not told. Linux 6.18 was seen
 * to leave a CPU idle that had tasks to run and was kicked again and again, in the middle of going offline, with RCU's
 * thread, for which that waited, in its shard's queue. So returns the shard whose tasks must go elsewhere: one of a CPU
 * that idles beside work for the second time that we look; SHARDS_MAX if there is none.
 */
core_fn attend_others(u32 here, u64 now_ns)
{
	USES_ARENA();
	u32 bound = CPUS_MAX, idle = 0, seen = cpu_at(here)->seen_idle;

	for (u32 cpu = hidden(0); cpu < topology.nr_cpus && can_loop; cpu = hidden(cpu + 1)) {
		struct consort_cpu __arena *c = cpu_at(cpu);
		bool idles = idles_beside_work(cpu);

		if (cpu == here)
			continue;
		if (!c->online && bound_place(c, cpu) != PLACE_NONE)
			bound = cpu;
		else if (idles || (!c->online && offline_waits(cpu)))
			kick(cpu, 0);
		if (idles && (!idle || cpu + 1 == seen))
			idle = cpu + 1;
	}
	if (bound < CPUS_MAX)
		run_bound(bound, here, now_ns);
	cpu_at(here)->seen_idle = idle;
	return idle && idle == seen ? cpu_at(idle - 1)->shard : SHARDS_MAX;
}

static inline void cpu_set_online(u32 cpu, u32 online)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *s = shard_at(c->shard);
	unsigned long flags;

	bpf_local_irq_save(&flags);
	lock_take(&s->lock);
	s->nr_cpus += online - c->online;
	if (online)
		s->online[cpu / 64 % MASK_WORDS] |= 1ULL << cpu % 64;
	else
		s->online[cpu / 64 % MASK_WORDS] &= ~(1ULL << cpu % 64);
	c->online = online;
	sides_forget(c);
	flight_end(c);
	c->running = NULL;
	c->compare_at_ns = NEVER_NS;
	c->timer_at_ns = NEVER_NS;
	lock_release(&s->lock);
	bpf_local_irq_restore(&flags);
}

/*
 * A CPU is online now. There is room for some that were not there when the scheduler was loaded, not for all that might ever
 * come: a machine of four CPUs may have a thousand possible ones, and each would take its part of every cgroup's memory. For
 * others the daemon loads it anew.
 */
static inline void cpu_comes(u32 cpu)
{
	if (cpu < topology.nr_cpus)
		cpu_set_online(cpu, 1);
	else
		scx_leave(CONSORT_EXIT_MORE_CPUS, "CPU %u has come, and there is room for %u", cpu,
			  topology.nr_cpus);
}

static inline void cpu_goes(u32 cpu)
{
	if (cpu < topology.nr_cpus)
		cpu_set_online(cpu, 0);
}

#endif
