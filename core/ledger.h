/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * One ledger: how an account's weight is divided over the queues in which it has runnable tasks.
 *
 * Problem  A cgroup with pinned threads on four CPUs must not weigh four times what one with free threads weighs.
 * Rule     In each queue an account competes with weight * load here / load everywhere. The load of an account is the sum
 *          of its runnable tasks' weights, and of the weights with which nested accounts compete in this queue: however
 *          many tasks these have, they have no more of it.
 * Bound    An account's weights in all queues sum up to its weight: where its tasks may run changes where its share is
 *          had, never how much it is.
 * Source   design of the tree; the stock scheduler divides a task group's shares likewise.
 * Limits   Loads count tasks, not what they can use: an account whose tasks crowd on one CPU leaves a part of its weight
 *          there that it cannot use. What a nested account adds to the load here follows what it does elsewhere when a
 *          task of it is next charged, woken or put to sleep here.
 */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include "types.h"

/* Loads are counted in 2^-14 of nice 0: that of nice 19 is 240. */
#define LOAD_SHIFT 6

/* A weight times a load of fewer bits fits. */
#define LOAD_BITS 36

struct ledger {
	u64 load; /* everywhere; several CPUs change it at a time */
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
