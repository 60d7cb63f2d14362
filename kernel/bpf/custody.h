/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Custody: in which of our queues a task waits, and how it is given to the kernel to run.
 *
 * Rule     A task that may run on all CPUs of a shard waits in the shard's place, one that may run on some of them in that of
 *          this subset, any other in its own CPU's. A CPU's local queue never holds more than the task that runs next there.
 */
#ifndef CONSORT_CUSTODY_H
#define CONSORT_CUSTODY_H

#include "run.h"
#include "subsets.h"

/* Slices end by timer or kick; where no timer could be started, by the tick. A task alone is looked at this often. */
#define SLICE_BY_TIMER_NS 100000000ULL

static inline u64 kernel_slice_ns(struct consort_cpu __arena *c, u64 now_ns)
{
	if (!timer_is_missing(c))
		return SLICE_BY_TIMER_NS;
	return c->compare_at_ns > now_ns ? c->compare_at_ns - now_ns : 1;
}

/* The same in a choice. On several CPUs the timer is armed after that, and may be expected to be if it was the last time. */
static inline u64 chosen_slice_ns(struct consort_cpu __arena *c, u64 now_ns)
{
	if (one_cpu || !use_timers || c->timer_failed || !c->online)
		return kernel_slice_ns(c, now_ns);
	return SLICE_BY_TIMER_NS;
}

/* Whether a task that may not run on all CPUs may run on all of the shard's. */
static inline bool may_run_in_shard(const struct task_struct *p, u32 shard)
{
	u32 count = shard_at(shard)->nr_possible;

	if ((u32)p->nr_cpus_allowed < count)
		return false;
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1)) {
		u64 of_shard = shard_at(shard)->cpus[i];

		if (of_shard & ~mask_word(p->cpus_ptr, i))
			return false;
	}
	return true;
}

/*
 * The place in which a task may wait. Where its subset of the shard's CPUs has no place, or for a task that stays, the CPU's
 * own. Without the shard's lock subsets may be others in a moment: whoever makes a task active there asks with `settles`,
 * with the lock held.
 */
__weak __noinline u32 place_for(const struct task_struct *p __arg_trusted, u32 cpu, u8 stays,
				bool settles)
{
	u32 shard = cpu_at(cpu)->shard, place;

	if (one_cpu)
		return place_of_shard(0);
	if (stays)
		return place_of_cpu(cpu);
	if (p->nr_cpus_allowed >= topology.nr_possible || may_run_in_shard(p, shard))
		return place_of_shard(shard);
	/* Beside reservations only two places of a CPU share it exactly: its shard's and its own. */
	if (class_table.shortest_period_ns || !may_run_on_two(p, shard))
		return place_of_cpu(cpu);
	place = settles ? make_subset(p, shard) : find_subset(p, shard);
	return place == PLACE_NONE ? place_of_cpu(cpu) : place;
}

/* Whether a waiting task may run there; the kernel throws a scheduler out that does not look. */
static inline bool may_run_on(const struct task __arena *t, const struct task_struct *p, u32 cpu)
{
	if (one_cpu || scx_bpf_task_cpu(p) == cpu)
		return true;
	return !t->stays && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * Gives the kernel a task that waited, to run here. A CPU that goes offline waits, without looking, until all tasks
 * have left it: it is made to look.
 */
static inline void run_here(struct task_struct *p, u32 cpu, u64 slice_ns)
{
	u32 from = one_cpu ? cpu : scx_bpf_task_cpu(p);

	insert_task(p, DSQ(LOCAL), slice_ns, 0);
	if (from != cpu && !cpu_at(from)->online)
		kick(from, 0);
}

#endif
