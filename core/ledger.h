/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One ledger: how an account's weight is divided over the queues in which it has runnable tasks.
 *
 * Problem  A cgroup with pinned threads on four CPUs must not weigh four times what one with free threads weighs. But what
 *          it cannot have on a full CPU, or a heavy task cannot use, it is to have elsewhere.
 * Rule     In each queue an account competes with weight * load here / load everywhere. The load of an account is the sum
 *          of its runnable tasks' weights, and of the weights with which nested accounts compete in this queue: however
 *          many tasks these have, they have no more of it. A queue's load counts beside the others' no more than what the
 *          account is served there is worth to them: their load for each CPU that they have. So a queue in which the
 *          account is served slower than elsewhere keeps its part, and the others have what it does not use. Within a queue
 *          a task, or a nested account, counts no more than the CPUs are worth that it can use.
 * Bound    Where an account is served alike in all queues its weights there sum up to its weight: where its tasks may run
 *          changes where its share is had, never how much it is. Else it has in sum what it is due at the speed of
 *          the fastest.
 * Source   design of the tree; the stock scheduler divides a task group's shares by load. Progressive filling (Bertsekas and
 *          Gallager, Data Networks, 6.5.2): a queue that can have no more is closed, and its siblings go on with the whole
 *          rate. Surplus fair scheduling (Chandra et al. 2000) for what a CPU is worth.
 * Limits   What is served is measured, and followed slowly; it is not known of a queue in which the account is seldom
 *          runnable for LEDGER_LOOK_NS: that counts what it weighs. So does a cache's queue where there are several: its
 *          tasks move to where they are served faster, and the clocks by which they do would not say any more that
 *          they lag. What a nested account adds to the load here follows what it does elsewhere when a task of it is
 *          next charged, woken or put to sleep here.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "types.h"

/* Loads are counted in 2^-14 of nice 0: that of nice 19 is 240. */
#define LOAD_SHIFT 6

/* A weight times a load of fewer bits fits. */
#define LOAD_BITS 36

/* Over how long CPU time is measured, and for how long what was measured is as good as what is measured next. */
#define LEDGER_LOOK_NS 40000000ULL
#define LEDGER_KNOWN_NS 250000000ULL

/* One CPU, as a part of those that an account has. */
#define LEDGER_CPU 65536

/* By one in so many more than it is served a queue's load may be worth: measurements are never quite the same. */
#define LEDGER_MORE 8

/* How many CPUs somebody has had lately. */
struct served {
	u64 looked_at_ns; /* the last look; 0: there was none */
	u64 looked_ran_ns; /* the CPU time until then */
	u64 cpus; /* in LEDGER_CPU; 0: it is not known */
};

struct ledger {
	u64 load; /* everywhere; several CPUs change this at a time, and the next one */
	u64 ran_ns; /* CPU time that its tasks have had while they were in several queues */
	struct served served; /* of that */
};

static __always_inline u64 load_of_weight(u64 weight)
{
	return (weight >> LOAD_SHIFT) ?: 1;
}

static __always_inline u64 weight_of_load(u64 load)
{
	return load << LOAD_SHIFT;
}

/* A look: other CPUs change it. */
static __always_inline u64 ledger_all(const struct ledger __arena *l)
{
	return *(const volatile u64 __arena *)&l->load;
}

/* The account has had `ns` of CPU time in a queue that has so much of its load. */
static __always_inline void ledger_ran(struct ledger __arena *l, u64 here, u64 ns)
{
	if (l && here < ledger_all(l))
		__sync_fetch_and_add(&l->ran_ns, ns);
}

/* Looks from time to time. Of several looks at once one is as good as another. */
static __always_inline void served_look(struct served __arena *s, u64 ran_ns, u64 now_ns)
{
	u64 gone_ns = now_ns - s->looked_at_ns, cpus, before = s->cpus;

	if (s->looked_at_ns && gone_ns < LEDGER_LOOK_NS)
		return;
	if (s->looked_at_ns) {
		cpus = (ran_ns - s->looked_ran_ns) * LEDGER_CPU / gone_ns;
		if (before && gone_ns < LEDGER_KNOWN_NS)
			cpus = (3 * before + cpus) / 4;
		s->cpus = cpus ?: 1;
	}
	s->looked_at_ns = now_ns;
	s->looked_ran_ns = ran_ns;
}

/* Nothing is known any more. */
static __always_inline void served_forget(struct served __arena *s)
{
	s->looked_at_ns = 0;
	s->cpus = 0;
}

/* What so many CPUs are worth, as a load, to the others of an account, in which they count as `own` now. */
static __always_inline u64 ledger_worth(const struct ledger __arena *l, u64 own, u64 cpus)
{
	u64 others = ledger_all(l) - own, all = l->served.cpus, worth;

	if (!cpus || all <= cpus || (s64)others <= 0)
		return ~0ULL;
	worth = others * cpus / (all - cpus);
	return worth + worth / LEDGER_MORE + 1;
}

/* The part of `weight` that a queue with this load has, which counts as `counted`. */
static __always_inline u64 ledger_part(const struct ledger __arena *l, u64 weight, u64 load,
				       u64 counted)
{
	u64 all = ledger_all(l);

	if (counted >= all)
		return weight;
	all += load - counted;
	if (all >> LOAD_BITS) {
		load >>= LOAD_BITS / 2;
		all >>= LOAD_BITS / 2;
	}
	return (weight * load / all) ?: 1;
}

#endif
