/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Classes: the level above everybody, which is there only while somebody has reserved.
 *
 * Problem  A class has a part of the CPU, its capacity, whatever the others do; systems without reservations must not
 *          pay for a level that they do not use.
 * Rule     A class is a group below the place's top. Its weight is its capacity; its members are reservations,
 *          whose weights are their nominal rates: the effective rate R * nominal / sum(nominal) follows. Whose turn
 *          it is among them, their periods say (period.h), or one of 004's algorithms: FRC, virtual time alone
 *          (tree.h), or RC, periods and the clock (rc.h). The root, which holds everybody else, is the class
 *          `flexible`: while another class is active it is a member of the top too, with the capacity that the other
 *          classes leave. While it is alone, choices begin at the root, and what it runs is added to its virtual time
 *          when it gets company.
 *          On several CPUs a class' reservations may be anywhere. In a place that has less than the average of what they
 *          have been promised the class weighs less in proportion; where they have been promised more in sum than its
 *          capacity is of the place's CPUs, it weighs what was promised, and the root makes room.
 * Bound    That of tree.h, period.h or rc.h at each level; a class waits for one quantum of each other class and its
 *          own q / R (004 section 5), however many members the others have. Due events of domains may put the root
 *          ahead of the classes by a window and a quantum more. While no more has been promised in a place than all but a
 *          part in CLASS_ROOT_LEAST of the root's capacity, each class has in sum what was promised to its members there.
 * Source   004 sections 3 and 5: every class is proxied; 001 (hierarchical stride) for what sleepers leave: it goes to the
 *          others in proportion to their capacities.
 * Limits   Where more has been promised than that, the host moves reserved tasks (balance.h). Effective rates of one class
 *          may differ from place to place: nominal ones are kept.
 */
#ifndef CORE_CLASS_H
#define CORE_CLASS_H

#include "place.h"

/* Where more has been promised than fits, what the root weighs still, as a part of its capacity. */
#define CLASS_ROOT_LEAST 16

/* Where active classes weigh more than their capacities, the root makes room for them. */
core_fn class_make_room(struct place __arena *pl in_arena)
{
	struct tree_node __arena *root = &pl->root.node;
	u64 most = pl->root.nominal_weight, least = most / CLASS_ROOT_LEAST;
	u64 classes = pl->top.weight_active - (root->active ? root->weight : 0);
	u64 left = classes < WEIGHT_ONE ? WEIGHT_ONE - classes : 0;

	if (root->parent && most)
		tree_reweigh(root, left > most ? most : left > least ? left : least);
	return 0;
}

/* What a class weighs in a place: see above. `load` is of its reservations there. */
static __always_inline u64 class_weight(const struct group __arena *class, u64 load, u64 nr_cpus)
{
	u64 all = ledger_all(class->ledger), promised = weight_of_load(load) / nr_cpus;
	u64 weight = all ? load * class->capacity / (nr_cpus * all) : class->nominal_weight;

	if (weight > class->nominal_weight)
		weight = class->nominal_weight;
	return promised > weight ? promised : weight ? weight : 1;
}

/*
 * What the members of a class weigh that are in a place: those of which tasks are runnable there, or, as the others have slept
 * somewhere, their part of all by its CPUs, if that is more.
 */
static __always_inline u64 class_weight_here(const struct group __arena *class, u64 nr_cpus)
{
	u64 part = class->weight_all * nr_cpus / (class->capacity / class->nominal_weight ?: 1);
	u64 active = weight_of_load(class->load);

	return active > part ? active : part;
}

/* To be called when the load of an account in the place has changed, or may have changed elsewhere. */
static __always_inline void class_follow_load(struct place __arena *pl,
					      struct group __arena *account)
{
	struct tree_node __arena *n;
	struct group __arena *class;
	u64 nr_cpus = pl->nr_cpus ? pl->nr_cpus : 1, weight;

	n = tree_member_above(&account->node, &pl->top);
	if (!n || n == &pl->root.node)
		return;
	class = group_of(n);
	/* One that has just gone to sleep is charged yet, with what it weighed. */
	if (!class->ledger || !class->load)
		return;
	class->weight_here = class_weight_here(class, nr_cpus);
	weight = class_weight(class, class->load, nr_cpus);
	if (weight == n->weight)
		return;
	tree_reweigh(n, weight);
	class_make_room(pl);
}

/* `first` has become the only active class: the root competes with it from now on. */
core_fn class_enter(struct place __arena *pl in_arena, struct tree_node __arena *first in_arena)
{
	struct tree_node __arena *root = &pl->root.node;
	struct group __arena *top = &pl->top;

	root->parent = top;
	if (!pl->root.nr_active)
		return 0;
	root->vtime = vtime_max(root->vtime + vtime_of_ns(pl->root.ran_ns, root->weight), top->vmin);
	root->active = 1;
	top->nr_active++;
	top->weight_active += root->weight;
	/* It was the only one, and so the smallest; the class may not save up what it did not use. */
	top->vmin = root->vtime;
	first->vtime = vtime_max(first->vtime, root->vtime);
	if (pl->root.ready.top)
		heap_push(&top->ready, &root->ready, root->vtime, 0);
	return 0;
}

/* The last active class has gone: the root is alone again. */
core_fn class_leave(struct place __arena *pl in_arena)
{
	struct tree_node __arena *root = &pl->root.node;
	struct group __arena *top = &pl->top;

	if (root->ready.queued)
		heap_remove(&top->ready, &root->ready);
	if (root->active) {
		/* Nobody else is there to be ahead of: the next choice lets domains go that were too far ahead here. */
		top->vmin = vtime_max(top->vmin, root->vtime);
		root->active = 0;
		top->nr_active--;
		top->weight_active -= root->weight;
	}
	root->parent = NULL;
	pl->root.ran_ns = 0;
	return 0;
}

/*
 * To be called when a task's node, its seat or a group that has been moved, which is anywhere in the place and does not wait,
 * has become active: a class may have become active with it.
 */
static __always_inline void place_activated(struct place __arena *pl, struct tree_node __arena *n)
{
	struct tree_node __arena *class;

	if (!pl->top.nr_active || pl->root.node.parent)
		return;
	class = tree_member_above(n, &pl->top);
	if (class)
		class_enter(pl, class);
}

/* To be called when a member of anything in the place has ceased to be active, and has been charged for its last run. */
static __always_inline void place_deactivated(struct place __arena *pl)
{
	if (pl->root.node.parent && pl->top.nr_active == pl->root.node.active)
		class_leave(pl);
}

#endif
