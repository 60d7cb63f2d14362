/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One ledger: how an account's weight is divided over the queues in which it has runnable tasks.
 *
 * Problem  A cgroup with pinned threads on four CPUs must not weigh four times what one with free threads weighs.
 * Rule     In each queue an account competes with weight * load here / load everywhere. The load of an account is the sum
 *          of its runnable tasks' weights, and of the weights with which nested accounts compete in this queue: however
 *          many tasks these have, they have no more of it. But a task weighs no more than one CPU of its account's, and an
 *          account in another one no more than one for each of its tasks here: an account that is entitled to C CPUs has
 *          1/C of its load for each. So what a heavy task cannot use is where its account's others are.
 * Bound    An account's weights in all queues sum up to its weight: where its tasks may run changes where its share is
 *          had, never how much it is.
 * Source   design of the tree; the stock scheduler divides a task group's shares likewise; surplus fair scheduling
 *          (Chandra et al. 2000) readjusts weights that cannot be used.
 * Limits   Masks are not looked at: an account whose tasks crowd on one CPU leaves a part of its weight there that it cannot
 *          use. What a task or a nested account adds to the load here follows what is elsewhere when the task, or one of it,
 *          is next charged, woken or put to sleep here: each such step comes nearer to loads that are cut evenly.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "types.h"

/* Loads are counted in 2^-14 of nice 0: that of nice 19 is 240. */
#define LOAD_SHIFT 6

/* A weight times a load of fewer bits fits. */
#define LOAD_BITS 36

/* CPUs are counted in 2^-10. */
#define LEDGER_CPU_SHIFT 10

struct ledger {
	u64 load; /* everywhere; several CPUs change it at a time, and the next one */
	u64 above; /* what it is of the load of the account that it is in, everywhere */
	u64 cpus; /* that it is entitled to; 0: not known */
};

static __always_inline u64 load_of_weight(u64 weight)
{
	return (weight >> LOAD_SHIFT) ?: 1;
}

static __always_inline u64 ledger_read(const u64 __arena *sum)
{
	return *(const volatile u64 __arena *)sum;
}

/* What one CPU of an account's is of its load: no task weighs more. */
static __always_inline u64 ledger_cpu_load(const struct ledger __arena *l)
{
	u64 cpus = l ? ledger_read(&l->cpus) : 0;

	return cpus ? ((ledger_read(&l->load) << LEDGER_CPU_SHIFT) / cpus) ?: 1 : ~0ULL;
}

/* What a task of `weight` adds to the load of its account, or `nr` tasks together. */
static __always_inline u64 ledger_load_of(const struct ledger __arena *l, u64 load, u64 nr)
{
	u64 each = ledger_cpu_load(l);

	return each >> LOAD_BITS || load < each * nr ? load : each * nr;
}

/* An account is entitled to its part of what the one is that it is in. */
static __always_inline void ledger_entitle(struct ledger __arena *l,
					   const struct ledger __arena *in)
{
	u64 all = ledger_read(&in->load), cpus = ledger_read(&in->cpus);

	l->cpus = all && cpus ? (cpus * ledger_read(&l->above) / all) ?: 1 : 0;
}

/* The part of `weight` that a queue with this load has. */
static __always_inline u64 ledger_part(const struct ledger __arena *l, u64 weight, u64 here)
{
	u64 all = ledger_read(&l->load);

	if (here >= all)
		return weight;
	if (all >> LOAD_BITS) {
		here >>= LOAD_BITS / 2;
		all >>= LOAD_BITS / 2;
	}
	return (weight * here / all) ?: 1;
}

#endif
