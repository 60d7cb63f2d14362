/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Subsets: places of tasks that may run on some of a shard's CPUs, as containers and cpusets have them.
 *
 * Problem  A task of such a mask in its CPU's own place is as good as pinned: it waits there while others, which are less
 *          entitled, run on the mask's other CPUs, and its cgroup's share depends on where its tasks happen to be.
 * Rule     Tasks whose masks allow the same two or more of a shard's CPUs, and not all, wait in one place, from which all of
 *          these CPUs choose, each beside its shard's place and its own (choose.h). A shard has SUBSETS such places; one in
 *          which nobody is runnable becomes that of the next mask that needs one.
 * Bound    Looking for a mask's place: SUBSETS comparisons. A task that is runnable in one may run on all of its CPUs.
 * Source   cpusets are few and shared by many tasks: one queue a mask, as multi-queue schedulers with one queue a domain.
 * Limits   While SUBSETS other masks have runnable tasks in a shard, and while anything is reserved, a task waits in its CPU's
 *          own place: classes are divided between two places of a CPU (divide.h), not between several. Masks are compared
 *          within a shard: a task that may run in several shards is in another subset of each.
 */
#ifndef CONSORT_SUBSETS_H
#define CONSORT_SUBSETS_H

#include "state.h"

/* No place. */
#define PLACE_NONE PLACES_MAX

static inline bool subset_has(const struct subset __arena *b, u32 cpu)
{
	return b->cpus[cpu / 64 % MASK_WORDS] >> cpu % 64 & 1;
}

/* Whether tasks of a place that is no CPU's own may run on a CPU of its shard. */
static __always_inline bool may_use(u32 place, u32 cpu)
{
	return place < SHARDS_MAX ||
	       subset_has(subset_at(shard_at(shard_of_place(place)), place - PLACE_SUBSETS), cpu);
}

/* How many CPUs of a subset are online. */
core_fn online_in(struct shard __arena *s in_arena, u32 subset)
{
	u32 nr = 0;

	USES_ARENA();
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1))
		nr += __builtin_popcountll(subset_at(s, subset)->cpus[i] & s->online[i]);
	return nr;
}

/* Whether a subset has a CPU that another one has not. */
core_fn has_more_than(struct shard __arena *s in_arena, u32 subset, u32 other)
{
	USES_ARENA();
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1)) {
		if (subset_at(s, subset)->cpus[i] & ~subset_at(s, other)->cpus[i])
			return true;
	}
	return false;
}

/* The next online CPU of a shard, in turns. Any CPU, if it has none. */
static __always_inline u32 cpu_after(const struct shard __arena *s, u32 cpu)
{
	u32 word = cpu / 64, bit = cpu % 64;
	u64 bits = s->online[word % MASK_WORDS] & (~1ULL << bit);

	for (u32 i = hidden(0); !bits && i < mask_words() && can_loop; i = hidden(i + 1)) {
		word = word + 1 < mask_words() ? word + 1 : 0;
		bits = s->online[word % MASK_WORDS];
	}
	return bits ? word * 64 + __builtin_popcountll((bits & -bits) - 1) : cpu;
}

/* A word of those CPUs of a shard on which a task may run. */
static __always_inline u64 allowed_word(const struct task_struct *p, u32 shard, u32 i)
{
	return mask_word(p->cpus_ptr, i) & shard_at(shard)->cpus[i];
}

/* Whether a task may run on all CPUs of a subset, and on no others of its shard. */
static __always_inline bool is_of_subset(const struct task_struct *p, u32 shard,
					 const struct subset __arena *b)
{
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1)) {
		if (b->cpus[i] != allowed_word(p, shard, i))
			return false;
	}
	return true;
}

/* Whether a task may run on two or more of a shard's CPUs. */
static __always_inline bool may_run_on_two(const struct task_struct *p, u32 shard)
{
	u64 seen = 0;

	if (p->nr_cpus_allowed < 2)
		return false;
	for (u32 i = hidden(0); i < mask_words() && can_loop; i = hidden(i + 1)) {
		u64 word = allowed_word(p, shard, i);

		if (word & (word - 1) || (word && seen))
			return true;
		seen |= word;
	}
	return false;
}

/* The place of those that may run where a task may, in a shard; PLACE_NONE: there is none. */
static __always_inline u32 find_subset(const struct task_struct *p, u32 shard)
{
	for (u32 i = hidden(0); i < subsets_of_shard() && can_loop; i = hidden(i + 1)) {
		if (is_of_subset(p, shard, subset_at(shard_at(shard), i)))
			return place_of_subset(shard, i);
	}
	return PLACE_NONE;
}

/* The same, for a task that is about to become active there: one that nobody needs is made it. With the shard's lock held. */
static __always_inline u32 make_subset(const struct task_struct *p, u32 shard)
{
	u32 place = find_subset(p, shard);

	if (place != PLACE_NONE)
		return place;
	for (u32 i = hidden(0); i < subsets_of_shard() && can_loop; i = hidden(i + 1)) {
		struct subset __arena *b = subset_at(shard_at(shard), i);

		if (b->place.nr_runnable)
			continue;
		for (u32 w = hidden(0); w < mask_words() && can_loop; w = hidden(w + 1))
			b->cpus[w] = allowed_word(p, shard, w);
		return place_of_subset(shard, i);
	}
	return PLACE_NONE;
}

/* Of the places beside its shard's from which a CPU may choose, the i-th: its own, then those of subsets; NULL: not this CPU. */
static inline struct place __arena *beside(struct consort_cpu __arena *c, u32 cpu, u32 i)
{
	struct subset __arena *b;

	if (!i)
		return &c->place;
	b = subset_at(shard_at(c->shard), i - 1);
	return b->place.nr_runnable && subset_has(b, cpu) ? &b->place : NULL;
}

/* Whether somebody waits for this CPU beside its shard's place. */
core_fn waits_beside(struct consort_cpu __arena *c in_arena, u32 cpu)
{
	if (place_head(&c->place)->ready.top)
		return true;
	for (u32 i = hidden(1); shard_at(c->shard)->nr_in_subsets && i <= SUBSETS && can_loop;
	     i = hidden(i + 1)) {
		struct place __arena *pl = beside(c, cpu, i);

		if (pl && place_head(pl)->ready.top)
			return true;
	}
	return false;
}

#endif
