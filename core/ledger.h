/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One ledger: how an account's weight is divided over the queues in which it has runnable tasks.
 *
 * Problem  A cgroup with pinned threads on four CPUs must not weigh four times what one with free threads weighs.
 * Rule     In each queue an account competes with weight * load here / load everywhere. The load of an account is the sum
 *          of its runnable tasks' weights, those of nested accounts included.
 * Bound    An account's weights in all queues sum up to its weight: where its tasks may run changes where its share is
 *          had, never how much it is.
 * Source   design of the tree; the stock scheduler divides a task group's shares likewise.
 * Limits   Loads count tasks, not what they can use: an account whose tasks crowd on one CPU leaves a part of its weight
 *          there that it cannot use. Between two updates of the sum, parts may be off by one task.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "types.h"

/* Loads are counted in 2^-10 of nice 0: that of nice 19 is 15, and sums of millions fit. */
#define LOAD_SHIFT 10

struct ledger {
	u64 load; /* everywhere; several CPUs change it at a time */
};

static __always_inline u64 load_of_weight(u64 weight)
{
	return (weight >> LOAD_SHIFT) ?: 1;
}

/* The part of `weight` that a queue with this load has. */
static __always_inline u64 ledger_part(const struct ledger __arena *l, u64 weight, u64 here)
{
	u64 all = *(const volatile u64 __arena *)&l->load;

	if (here >= all)
		return weight;
	return (weight * here / all) ?: 1;
}

#endif
