/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a new task begins, if no CPU idles that it may use.
 *
 * Problem  It would begin in its maker's cache. All threads of a program would, and then leave that one at a time (balance.h): 64
 *          of them take seconds to have what the machine's other tasks have.
 * Rule     Of two other caches, which come in turn, the one with fewer tasks for its CPUs is taken, if the maker's has half as many
 *          again, or more. Smaller differences are balancing's, which knows what tasks weigh and are owed.
 * Bound    A new task looks at two caches, however many there are.
 * Source   the power of two choices (Mitzenmacher 2001). The stock scheduler looks at all (find_idlest_group).
 * Limits   Tasks are counted without locks, whatever they weigh: a heavy one is worth a CPU at most.
 */
#ifndef CONSORT_FORK_H
#define CONSORT_FORK_H

#include "subsets.h"

#define FORK_LOOKS 2

/* An online CPU of a shard on which the task may run; CPUS_MAX: there is none. */
static inline u32 allowed_cpu(const struct task_struct *p, const struct shard __arena *s)
{
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1)) {
		u64 bits = mask_word(p->cpus_ptr, i) & s->online[i % MASK_WORDS];

		if (bits)
			return i * 64 + __builtin_popcountll((bits & -bits) - 1);
	}
	return CPUS_MAX;
}

/* Whether another shard has half as many tasks again for its CPUs as this one would have with one more. */
static inline bool has_fewer_tasks(const struct shard __arena *s, const struct shard __arena *other)
{
	return 3 * (s->nr_runnable + 1) * other->nr_cpus < 2 * other->nr_runnable * s->nr_cpus;
}

/* The CPU at which a new task begins, if not at `cpu`. */
static __attribute__((noinline)) s32 cpu_for_new(const struct task_struct *p, s32 cpu)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *best = shard_at(c->shard), *s;
	u32 at = cpu, found;

	USES_ARENA();
	for (u32 i = hidden(0); i < FORK_LOOKS && can_loop; i = hidden(i + 1)) {
		s = shard_at(c->forks++ % topology.nr_shards);
		if (s == best || !has_fewer_tasks(s, best))
			continue;
		found = allowed_cpu(p, s);
		if (found >= topology.nr_cpus)
			continue;
		best = s;
		at = found;
	}
	return at;
}

#endif
