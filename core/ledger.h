/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One ledger: how an account's weight is divided over the queues in which it has runnable tasks.
 *
 * Problem  A cgroup with pinned threads on four CPUs must not weigh four times what one with free threads weighs.
 * Rule     In each queue an account competes with weight * load here / load everywhere. The load of an account is the sum
 *          of its runnable tasks' weights, and of the weights with which nested accounts compete in this queue: however
 *          many tasks these have, they have no more of it. What can use one CPU alone, a task or all that is in a queue
 *          of one CPU, counts as what a CPU is worth to the account's others, at most: their load for each CPU that they
 *          have. So does a nested account, by its tasks in the queue. Else a heavy one would keep the account's weight where
 *          it has a CPU, and needs no more.
 * Bound    An account's weights in all queues sum up to its weight: where its tasks may run changes where its share is
 *          had, never how much it is.
 * Source   design of the tree; the stock scheduler divides a task group's shares likewise. Surplus fair scheduling (Chandra et
 *          al. 2000) for what a CPU is worth.
 * Limits   What the others have is measured: it is known after LEDGER_LOOK_NS, and follows slowly. Several heavy tasks in a
 *          queue of several CPUs are not heavy to it together. What a nested account adds to the load here follows what it
 *          does elsewhere when a task of it is next charged, woken or put to sleep here.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "types.h"

/* Loads are counted in 2^-14 of nice 0: that of nice 19 is 240. */
#define LOAD_SHIFT 6

/* A weight times a load of fewer bits fits. */
#define LOAD_BITS 36

/* Over how long CPU time is measured, and for how long what was measured is any use. */
#define LEDGER_LOOK_NS 40000000ULL
#define LEDGER_STALE_NS 1000000000ULL

/* One CPU, as a part of those that an account has. */
#define LEDGER_CPU 256

struct ledger {
	u64 load; /* everywhere; several CPUs change this at a time, and the next one */
	u64 ran_ns; /* CPU time that its tasks have had while they were in several queues */
	u64 looked_at_ns; /* the last look; */
	u64 looked_ran_ns; /* what ran_ns was then; */
	u64 cpus; /* and how many CPUs that was lately, in LEDGER_CPU; 0: nothing is known */
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

/* How many CPUs the account has, from time to time. Of several looks at once one is as good as another. */
static __always_inline void ledger_look(struct ledger __arena *l, u64 now_ns)
{
	u64 gone_ns = now_ns - l->looked_at_ns, ran_ns = l->ran_ns, cpus;

	if (gone_ns < LEDGER_LOOK_NS)
		return;
	cpus = (ran_ns - l->looked_ran_ns) * LEDGER_CPU / gone_ns;
	l->cpus = gone_ns < LEDGER_STALE_NS ? (3 * l->cpus + cpus) / 4 : 0;
	l->looked_at_ns = now_ns;
	l->looked_ran_ns = ran_ns;
}

/* What `nr` CPUs are worth, as a load: most that one who can use no more counts, and counts as `own` now. */
static __always_inline u64 ledger_most(const struct ledger __arena *l, u64 own, u64 nr)
{
	u64 others = ledger_all(l) - own, used = nr * LEDGER_CPU, cpus = l->cpus;

	if (cpus <= used || (s64)others <= 0)
		return ~0ULL;
	return others * used / (cpus - used) ?: 1;
}

/* The part of `weight` that a queue with this load has. */
static __always_inline u64 ledger_part(const struct ledger __arena *l, u64 weight, u64 here)
{
	u64 all = ledger_all(l);

	if (here >= all)
		return weight;
	if (all >> LOAD_BITS) {
		here >>= LOAD_BITS / 2;
		all >>= LOAD_BITS / 2;
	}
	return (weight * here / all) ?: 1;
}

#endif
