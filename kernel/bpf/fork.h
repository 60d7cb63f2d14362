/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a new task begins, if no CPU idles that it may use.
 *
 * Problem  It would begin in its maker's cache. All threads of a program would, and then leave that one at a time (balance.h): 64
 *          of them take seconds to have what the machine's other tasks have.
 * Rule     Of two other caches, which come in turn, the one with less load for its CPUs is taken, if that is less than the maker's by
 *          more than one of its tasks.
 * Bound    A new task looks at two caches, however many there are.
 * Source   the power of two choices (Mitzenmacher 2001). The stock scheduler looks at all (find_idlest_group).
 * Limits   Loads are read without locks, and those of CPUs' own places are not: balancing does the rest.
 */
#ifndef CONSORT_FORK_H
#define CONSORT_FORK_H

#include "balance.h"

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

/* Whether a shard has less load for its CPUs than another one, though it had one of its average tasks more. */
static inline bool has_less_load(struct shard __arena *s, struct shard __arena *other)
{
	u64 theirs = shard_load(other), nr = other->place.nr_runnable;

	return (shard_load(s) + theirs / (nr ?: 1)) * other->nr_cpus < theirs * s->nr_cpus;
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
		if (s == best || !has_less_load(s, best))
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
