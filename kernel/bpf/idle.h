/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle CPUs: which of them are told that a task waits.
 *
 * Problem  The kernel calls a CPU idle a moment after that has asked for its next task in vain. A task that is enqueued
 *          in between finds no idle CPU, and this one idles beside it.
 * Rule     A CPU that finds no work says so before it lets go of its shard's lock, and only then looks at other shards.
 *          Whoever enqueues a task and finds no CPU that the kernel calls idle kicks those that have said so. The kernel
 *          carries a kick out when its CPU is done with choosing. Both write before they read what the other has
 *          written: one of them sees the other.
 * Limits   A CPU that a higher class has taken while it was idle is kicked in vain.
 */
#ifndef CONSORT_IDLE_H
#define CONSORT_IDLE_H

#include "kick.h"

#define WORD_BITS 64
#define WORKLESS_WORDS ((CPUS_MAX + WORD_BITS - 1) / WORD_BITS)

/* A bit for each CPU that has found no work. */
u64 workless[WORKLESS_WORDS];

static inline u64 *workless_word(u32 cpu)
{
	return &workless[cpu / WORD_BITS % WORKLESS_WORDS];
}

/* With the shard's lock held. */
static inline void set_workless(struct consort_cpu __arena *c, u32 cpu)
{
	if (one_cpu || c->workless)
		return;
	c->workless = 1;
	__sync_fetch_and_or(workless_word(cpu), 1ULL << cpu % WORD_BITS);
}

/* As above. */
static inline void clear_workless(struct consort_cpu __arena *c, u32 cpu)
{
	if (one_cpu || !c->workless)
		return;
	c->workless = 0;
	__sync_fetch_and_and(workless_word(cpu), ~(1ULL << cpu % WORD_BITS));
}

static inline bool is_any_workless(void)
{
	u64 any = 0;

	for (u32 i = 0; i < WORKLESS_WORDS; i++)
		any |= *(volatile u64 *)&workless[i];
	return any;
}

/* Of the CPUs that have found no work, kicks those on which the thread may run; pid 0: all. */
core_fn kick_workless(s32 pid)
{
	struct task_struct *p;

	USES_ARENA();
	if (!is_any_workless())
		return 0;
	p = pid ? bpf_task_from_pid(pid) : NULL;
	bpf_rcu_read_lock(); /* timers' programs are verified as ones that may sleep */
	for (u32 cpu = 0; cpu < topology.nr_cpus && can_loop; cpu++) {
		if (!(*(volatile u64 *)workless_word(cpu) >> cpu % WORD_BITS & 1))
			continue;
		if (cpu_at(cpu)->online && (!p || bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
			kick(cpu, KICK(IDLE));
	}
	bpf_rcu_read_unlock();
	if (p)
		bpf_task_release(p);
	return 0;
}

/*
 * The kernel marks a CPU that goes offline idle, too, and one that has been given a task until it has switched to that.
 */
#define IDLE_LOOKS 4

static inline s32 pick_idle(const struct cpumask *allowed)
{
	for (u32 look = 0; look < IDLE_LOOKS; look++) {
		s32 idle = scx_bpf_pick_idle_cpu(allowed, 0);

		if (idle < 0 || (cpu_at(idle)->online && !cpu_at(idle)->running))
			return idle;
	}
	return -1;
}

/*
 * Has an idle CPU of those look for a task: the thread `pid` if that is not 0. Returns whether one does that the kernel
 * calls idle.
 */
static inline bool tell_idle(const struct cpumask *allowed, s32 pid)
{
	s32 idle = pick_idle(allowed);

	if (idle >= 0)
		kick(idle, KICK(IDLE));
	else
		kick_workless(pid);
	return idle >= 0;
}

#endif
