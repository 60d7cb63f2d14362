/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Many CPUs: tasks that change shards, CPUs that take work from others when idle or less loaded, CPUs that come and
 * go.
 *
 * No two locks are held at once: a task that changes shards is inactive, and in no queue, in between.
 */
#ifndef CONSORT_SHARDS_H
#define CONSORT_SHARDS_H

#include "members.h"

/* Takes a task out of its place, to be put into `place` of another shard. Both shards' locks are free. */
static inline void task_change_shard(struct task __arena *t, u32 place)
{
	struct domain __arena *d;

	if (t->member.node.ready.queued)
		task_take(t);
	task_deactivate(t);
	if (t->member.asleep && in_domain(t)) {
		d = domain_in(t->set, t->place);
		domain_wake(d, &t->member);
		place_refresh(place_at(t->place), d);
	}
	t->place = place;
	tree_move(&t->member.node, parent_of(t),
		  vtime_of_ns(tunables.granularity_ns, t->member.node.weight));
}

/* A task that the kernel has moved to another shard's CPU. */
static inline void leave_shard(struct task __arena *t, const struct task_struct *p, u32 place,
			       u64 now_ns)
{
	struct lock __arena *l = task_lock(t);

	task_charge(t, p, now_ns);
	task_change_shard(t, place);
	lock_release(l);
}

/*
 * Takes the task that `from` would run next, if it may run on `cpu`; returns it with a reference, out of all queues
 * and inactive, in the place `to`.
 */
static inline struct task_struct *steal_from(u32 from, u32 to, u32 cpu, u64 now_ns)
{
	struct place __arena *pl = place_at(from);
	struct lock __arena *l = &shard_at(shard_of_place(from))->lock;
	struct choice __arena *best = &cpu_at(cpu)->own_choice;
	struct task_struct *p = NULL;
	struct task __arena *t;

	if (!pl->root.ready.top)
		return NULL;
	lock_take(l);
	place_choose(pl, NULL, now_ns, best);
	if (best->task) {
		t = task_of_node(best->task);
		p = bpf_task_from_pid(t->pid);
		if (p && (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || migration_disabled(p))) {
			bpf_task_release(p);
			p = NULL;
		}
		if (p)
			task_change_shard(t, from < SHARDS_MAX ? to : place_of_cpu(cpu));
	}
	lock_release(l);
	return p;
}

/* Between two locks the kernel may have enqueued the task again, on a CPU of its own choice: then it is there. */
static inline bool is_still_ours(const struct task __arena *t, u32 shard)
{
	return shard_of_place(t->place) == shard && !t->member.node.active;
}

/* An idle CPU looks for work elsewhere: other CPUs' own places, then other shards. True if it found some. */
static inline bool steal(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	u32 own = place_of_shard(c->shard);
	struct task_struct *p = NULL;
	struct task __arena *t;
	bool mine;

	for (u32 i = 0; i < nr_places() && can_loop; i++) {
		u32 place = i < topology.nr_shards ? i : SHARDS_MAX + i - topology.nr_shards;

		if (place == own || place == place_of_cpu(cpu))
			continue;
		p = steal_from(place, own, cpu, now_ns);
		if (p)
			break;
	}
	if (!p)
		return false;
	t = task_of(p);
	lock_take(&shard_at(c->shard)->lock);
	mine = is_still_ours(t, c->shard);
	if (mine) {
		task_activate(t);
		task_begin(c, cpu, t, now_ns, true);
	}
	lock_release(&shard_at(c->shard)->lock);
	if (mine) {
		count_on(cpu)->steals++;
		insert_task(p, DSQ(LOCAL), SLICE_BY_TIMER_NS, 0);
	}
	bpf_task_release(p);
	return mine;
}

/* How often a CPU looks whether its shard has less than its part of the runnable tasks. */
#define BALANCE_NS 20000000ULL

/* Whether `from` has so many more runnable tasks a CPU than `to` that one should move. */
static inline bool is_busier(struct shard __arena *from, struct shard __arena *to)
{
	return (u64)from->place.nr_runnable * to->nr_cpus >
	       (u64)(to->place.nr_runnable + 1) * from->nr_cpus;
}

/* Shards get equal numbers of runnable tasks a CPU, within one: virtual times then advance alike in all of them. */
static inline void balance(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	struct shard __arena *own = shard_at(c->shard);
	struct task_struct *p = NULL;
	struct task __arena *t;

	if (now_ns < c->balance_at_ns)
		return;
	c->balance_at_ns = now_ns + BALANCE_NS;
	for (u32 i = 0; i < topology.nr_shards && can_loop; i++) {
		if (i == c->shard || !is_busier(shard_at(i), own))
			continue;
		p = steal_from(place_of_shard(i), place_of_shard(c->shard), cpu, now_ns);
		if (p)
			break;
	}
	if (!p)
		return;
	t = task_of(p);
	lock_take(&own->lock);
	if (is_still_ours(t, c->shard)) {
		task_activate(t);
		task_wait(t, now_ns);
	}
	lock_release(&own->lock);
	count_on(cpu)->steals++;
	bpf_task_release(p);
}

static inline void cpu_set_online(u32 cpu, u32 online)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *s = shard_at(c->shard);
	unsigned long flags;

	bpf_local_irq_save(&flags);
	lock_take(&s->lock);
	s->nr_cpus += online - c->online;
	c->online = online;
	c->running = NULL;
	c->compare_at_ns = NEVER_NS;
	c->timer_at_ns = NEVER_NS;
	lock_release(&s->lock);
	bpf_local_irq_restore(&flags);
}

#endif
