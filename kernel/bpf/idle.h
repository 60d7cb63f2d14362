/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle CPUs: which of them is told that a task waits.
 *
 * Problem  The kernel calls a CPU idle a moment after that has asked for its next task in vain. A task that is enqueued
 *          in between finds no idle CPU, and this one idles beside it.
 * Rule     A CPU that finds no work says so before it lets go of its shard's lock, and only then looks at other shards.
 *          Whoever enqueues a task and finds no CPU that the kernel calls idle takes one of those that have said so at
 *          its word, and kicks it: the kernel carries that out when the CPU is done with choosing. Both write before
 *          they read what the other has written, so that one of them sees the other; each CPU is told once, so that
 *          two tasks are two CPUs' work. It remembers of which place it was told until it has chosen: who gives it another
 *          task before that tells a third CPU, if somebody still waits there.
 * Limits   A CPU that a higher class takes in that moment is told in vain.
 */
#ifndef CONSORT_IDLE_H
#define CONSORT_IDLE_H

#include "kick.h"

#define WORD_BITS 64
#define WORKLESS_WORDS ((CPUS_MAX + WORD_BITS - 1) / WORD_BITS)

/* A bit for each CPU that has found no work, and has not been told of any since then. */
u64 workless[WORKLESS_WORDS];

static inline u64 *workless_word(u32 cpu)
{
	/* As for counters, see count_on(). */
	asm volatile("" : "+r"(cpu));
	return &workless[cpu / WORD_BITS % WORKLESS_WORDS];
}

static inline u64 workless_bit(u32 cpu)
{
	return 1ULL << cpu % WORD_BITS;
}

static inline bool is_workless(u32 cpu)
{
	return *(volatile u64 *)workless_word(cpu) & workless_bit(cpu);
}

core_fn mark_workless(u32 cpu)
{
	if (!is_workless(cpu))
		__sync_fetch_and_or(workless_word(cpu), workless_bit(cpu));
	return 0;
}

core_fn unmark_workless(u32 cpu)
{
	return is_workless(cpu) &&
	       (__sync_fetch_and_and(workless_word(cpu), ~workless_bit(cpu)) & workless_bit(cpu));
}

static inline void set_workless(u32 cpu)
{
	if (!one_cpu)
		mark_workless(cpu);
}

/* Whether the CPU had found no work, and nobody else is telling it. */
static inline bool claim_workless(u32 cpu)
{
	return !one_cpu && unmark_workless(cpu);
}

/*
 * Has an idle CPU look for a task that waits in the place. False: it has just been given another one. Whoever gives it one
 * looks for what it has been told afterwards (pass_on), and one of the two sees the other.
 */
static inline bool tell(u32 cpu, u32 place)
{
	struct consort_cpu __arena *c = cpu_at(cpu);

	if (!c->online)
		return false;
	__sync_lock_test_and_set(&c->told, place + 1);
	if (*(void *volatile __arena *)&c->running)
		return false;
	kick(cpu, KICK(IDLE));
	return true;
}

/* Tells a CPU that has found no work and on which the thread may run; pid 0: any. */
core_fn tell_workless(s32 pid, u32 place)
{
	struct task_struct *p = pid ? bpf_task_from_pid(pid) : NULL;

	USES_ARENA();
	bpf_rcu_read_lock(); /* timers' programs are verified as ones that may sleep */
	for (u32 cpu = hidden(0); cpu < topology.nr_cpus && can_loop; cpu = hidden(cpu + 1)) {
		if (!*(volatile u64 *)workless_word(cpu)) {
			cpu |= WORD_BITS - 1;
			continue;
		}
		if (!is_workless(cpu) || higher_class_waits(cpu) ||
		    (p && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) || !claim_workless(cpu))
			continue;
		if (tell(cpu, place))
			break;
	}
	bpf_rcu_read_unlock();
	if (p)
		bpf_task_release(p);
	return 0;
}

core_fn is_any_workless(void)
{
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1)) {
		if (*(volatile u64 *)&workless[i % WORKLESS_WORDS])
			return true;
	}
	return false;
}

/*
 * The kernel marks a CPU that goes offline idle, too, and one that has been given a task, by us or by a higher class, until
 * it has switched to that.
 */
#define IDLE_LOOKS 4

/*
 * Has an idle CPU of those look for a task that waits in the place: the thread `pid` if that is not 0. Returns whether one
 * does that the kernel calls idle.
 */
static inline bool tell_idle(const struct cpumask *allowed, s32 pid, u32 place)
{
	for (u32 look = 0; look < IDLE_LOOKS; look++) {
		s32 idle = scx_bpf_pick_idle_cpu(allowed, 0);

		if (idle < 0)
			break;
		claim_workless(idle);
		if (!higher_class_waits(idle) && tell(idle, place))
			return true;
	}
	if (is_any_workless())
		tell_workless(pid, place);
	return false;
}

/* Has a CPU look for the first that waits in a place that is not every CPU's. Without its lock: a hint. */
static inline void tell_of_first(u32 place)
{
	struct waiter __arena *w =
		*(struct waiter __arena *volatile __arena *)&place_at(place)->waiters.first;
	s32 pid = w ? task_of_node(&outer_of(w, struct member, waiter)->node)->pid : 0;
	struct task_struct *p = pid ? bpf_task_from_pid(pid) : NULL;

	if (!p)
		return;
	tell_idle(p->cpus_ptr, pid, place);
	bpf_task_release(p);
}

/* An idle CPU has been given a task at once: what it had been told of is told to another one. */
core_fn pass_on(struct consort_cpu __arena *c in_arena)
{
	const struct cpumask *all;
	u32 told;

	if (!c->told)
		return 0;
	told = __sync_lock_test_and_set(&c->told, 0);
	if (!told || !place_head(place_at(told - 1))->ready.top)
		return 0;
	if (told > SHARDS_MAX) {
		tell_of_first(told - 1);
		return 0;
	}
	all = scx_bpf_get_possible_cpumask();
	tell_idle(all, 0, told - 1);
	scx_bpf_put_cpumask(all);
	return 0;
}

#endif
