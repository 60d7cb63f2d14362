/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Division: the parts that two sides of a CPU have of it where classes are active.
 *
 * Problem  A CPU chooses from its shard's place, and from those of tasks that may not run everywhere in the shard. Each has
 *          classes and a root of its own, which divide what the place has. Were a CPU divided by what all of a side weighs,
 *          what is promised on one side would be taken by what classes on the other have beyond their promises, or by the
 *          root's tasks there.
 * Rule     What is promised on the CPU's own side comes first: its tasks may run nowhere else. Then what is promised on the
 *          other, by its part for each of the shard's CPUs. The tasks that have reserved nothing have what promises leave, but
 *          at most the capacity of `flexible` and at least its part in DIVISION_ROOT_LEAST; it is divided between the sides by
 *          their weights. What is left goes to classes that weigh more than is promised, in proportion to that.
 * Bound    While promises and the root's least part are no more than the CPU, each side has what is promised there.
 * Source   004 section 3 at each CPU; promises first, as its admission has it.
 * Limits   A task that has less of one CPU than is promised for each has more of another one: the shard's place has all CPUs to choose
 *          from, if its own sides' promises are within the CPUs that there are.
 */
#ifndef CORE_DIVISION_H
#define CORE_DIVISION_H

#include "vtime.h"

/* What tasks without reservations have of a CPU however much is promised there, as a part of their capacity. */
#define DIVISION_ROOT_LEAST 16

/* What a side wants of a CPU: WEIGHT_ONE is all of it. */
struct division_side {
	u64 promised; /* to its active reservations */
	u64 classes; /* what their classes want, at least that */
	u64 root; /* what its other tasks weigh, in any unit */
};

struct division {
	struct division_side own; /* of tasks that may run nowhere else */
	struct division_side shared;
	u64 own_weight; /* the results: what each side has, relative to the other; */
	u64 shared_weight;
	u64 own_more; /* of the own side, what its classes have beyond their promises, */
	u64 own_root; /* and what its root has, or would have if it had any tasks */
};

/* What promises leave for tasks without reservations, of a CPU of which they have `capacity`. */
static __always_inline u64 division_root(u64 capacity, u64 promised)
{
	u64 left = promised < WEIGHT_ONE ? WEIGHT_ONE - promised : 0;
	u64 least = capacity / DIVISION_ROOT_LEAST;

	return left > capacity ? capacity : left > least ? left : least;
}

/* What a class has that wants `more` than its promises, of `left` for all, which want `all_more`. */
static __always_inline u64 division_more(u64 more, u64 all_more, u64 left)
{
	return all_more > left ? left * more / all_more : more;
}

/* `capacity` of the tasks without reservations. */
static __always_inline void division_make(struct division *d, u64 capacity)
{
	u64 root = division_root(capacity, d->own.promised + d->shared.promised);
	u64 roots = d->own.root + d->shared.root, left = roots ? WEIGHT_ONE - root : WEIGHT_ONE;
	u64 own = d->own.promised < left ? d->own.promised : left;
	u64 shared = d->shared.promised < left - own ? d->shared.promised : left - own;
	u64 own_more = d->own.classes - d->own.promised;
	u64 shared_more = d->shared.classes - d->shared.promised, more = own_more + shared_more;

	left -= own + shared;
	d->own_more = division_more(own_more, more, left);
	d->own_root = d->own.root ? root * d->own.root / roots : root;
	d->own_weight = own + d->own_more + (d->own.root ? d->own_root : 0);
	d->shared_weight = shared + division_more(shared_more, more, left) + (roots ? root : 0) -
			   (d->own.root ? d->own_root : 0);
}

#endif
