/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Who owes: members of a domain that sleep, and are ahead of their account's minimum.
 *
 * Problem  A domain may run ahead for its due events by so much and no more. Members that take turns each sleep with what
 *          they have had too early: a look at those that are awake does not see it.
 * Rule     Sleepers wait in a queue by their own virtual time, and leave it when the minimum has come there. Sums of their
 *          weights, and of these times their virtual times, say at once by how much all of them are ahead of any minimum.
 * Bound    Joining and leaving: O(log n). The sum is exact to 2^-10 of a weight of WEIGHT_ONE.
 * Source   the sums are those of EEVDF's average virtual time.
 * Limits   Sums wrap: all of them together may be ahead by two hours of CPU time.
 */
#ifndef CORE_OWING_H
#define CORE_OWING_H

#include "heap.h"
#include "vtime.h"

/* Weights are counted in these. */
#define OWING_SHIFT 10

struct owing {
	struct heap queue;
	u64 weight; /* of those in it */
	u64 sum; /* of their weights times their virtual times */
};

static __always_inline void owing_begin(struct owing __arena *o)
{
	o->queue.top = NULL;
	o->weight = 0;
	o->sum = 0;
}

/* A sleeper of `weight` owes until the minimum is at `vtime`. */
static __always_inline void owing_add(struct owing __arena *o, struct heap_link __arena *l,
				      u64 weight, u64 vtime)
{
	weight >>= OWING_SHIFT;
	heap_push(&o->queue, l, vtime, weight);
	o->weight += weight;
	o->sum += weight * vtime;
}

/* It has repaid, or owes no more because it is awake. */
static __always_inline void owing_remove(struct owing __arena *o, struct heap_link __arena *l)
{
	heap_remove(&o->queue, l);
	o->weight -= l->minor;
	o->sum -= l->minor * l->major;
}

/* Those that the minimum has come to owe no more. */
static __always_inline void owing_settle(struct owing __arena *o, u64 vmin)
{
	while (can_loop) {
		struct heap_link __arena *first = o->queue.top;

		if (!first || vtime_before(vmin, first->major))
			break;
		owing_remove(o, first);
	}
}

/* What they weigh, as other members do. */
static __always_inline u64 owing_weight(const struct owing __arena *o)
{
	return o->weight << OWING_SHIFT;
}

/* By how much CPU time all of them are ahead of a minimum that has come to none of them. */
static __always_inline u64 owing_ns(const struct owing __arena *o, u64 vmin)
{
	return (o->sum - o->weight * vmin) >> (WEIGHT_SHIFT + VTIME_SHIFT - OWING_SHIFT);
}

#endif
