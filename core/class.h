/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Classes: the level above everybody, which is there only while somebody has reserved.
 *
 * Problem  A class has a part of the CPU, its capacity, whatever the others do; systems without reservations must not
 *          pay for a level that they do not use.
 * Rule     A class is a group below the place's top. Its weight is its capacity; its members are reservations,
 *          whose weights are their nominal rates: the effective rate R * nominal / sum(nominal) follows. Whose turn
 *          it is among them, their periods say (decide/period.h), or one of 004's algorithms: FRC, virtual time alone
 *          (decide/fair.h), or RC, periods and the clock (decide/rc.h). The root, which holds everybody else, is the class
 *          `flexible`: while another class is active it is a member of the top too, with the capacity that the other
 *          classes leave. While it is alone, choices begin at the root, and what it runs is added to its virtual time
 *          when it gets company.
 *          On several CPUs a class' reservations may be anywhere. In a place that has less than the average of what they
 *          have been promised the class weighs less in proportion; where they have been promised more in sum than its
 *          capacity is of the place's CPUs, it weighs what was promised, and the root and what other classes weigh beyond
 *          their promises make room. Where more of the root's tasks are than elsewhere the host gives it more (balance.h).
 * Bound    That of tree.h, period.h or rc.h at each level; a class waits for one quantum of each other class and its
 *          own q / R (004 section 5), however many members the others have. Due events of domains may put the root
 *          ahead of the classes by a window and a quantum more. While no more has been promised in a place than all but a
 *          part in DIVISION_ROOT_LEAST of the root's capacity, each class has in sum what was promised to its members there.
 * Source   004 sections 3 and 5: every class is proxied; 001 (hierarchical stride) for what sleepers leave: it goes to the
 *          others in proportion to their capacities.
 * Limits   Where more has been promised than that, the host moves reserved tasks (balance.h). Effective rates of one class
 *          may differ from place to place: nominal ones are kept.
 */
#ifndef CORE_CLASS_H
#define CORE_CLASS_H

#include "division.h"
#include "place.h"

/* What a place has of its CPUs, of which those beside it have theirs. */
static __always_inline u64 class_cpus_weight(const struct place __arena *pl)
{
	u64 all = (u64)(pl->nr_cpus ?: 1) * WEIGHT_ONE, least = all / DIVISION_ROOT_LEAST;

	return all - least > pl->sides_weight ? all - pl->sides_weight : least;
}

/* A part of so much of CPUs. */
static __always_inline u64 class_part(u64 weight, u64 cpus_weight)
{
	return weight * WEIGHT_ONE / cpus_weight;
}

/* What is promised to a class' reservations in a place, `load` of them. */
static __always_inline u64 class_promised(u64 load, u64 cpus_weight)
{
	return class_part(weight_of_load(load), cpus_weight);
}

/*
 * What a class would weigh in a place if the others left room for it: see above. This and class_weigh_one are functions so that
 * Linux' verifier looks at one class once, not at all of them in every way.
 */
core_fn class_wants(struct group __arena *class in_arena, u64 cpus_weight)
{
	u64 all = ledger_all(class->ledger), load = class->load;
	u64 promised = class_promised(load, cpus_weight);
	u64 weight =
		all ? class_part(load * class->capacity / all, cpus_weight) : class->nominal_weight;

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

/* What all classes in which anybody is runnable want, and what is promised to them. */
static __always_inline void class_sum(struct place __arena *pl, u64 cpus_weight)
{
	struct group __arena *class;
	u64 promised = 0, want = 0;

	for (class = pl->classes; class && can_loop; class = class->next_class) {
		if (!class->load)
			continue;
		promised += class_promised(class->load, cpus_weight);
		want += class_wants(class, cpus_weight);
	}
	pl->classes_promised = promised;
	pl->classes_want = want;
}

/*
 * A class weighs what is promised there, and of what is left for all that want more its part. What it needs to know of all it
 * reads from the place: Linux' verifier cannot follow a number past a call in a loop.
 */
core_fn class_weigh_one(struct place __arena *pl in_arena, struct group __arena *class in_arena)
{
	u64 cpus_weight = class_cpus_weight(pl), own = class_promised(class->load, cpus_weight);
	u64 more = class_wants(class, cpus_weight) - own;
	u64 all_more = pl->classes_want - pl->classes_promised;

	class->weight_here = class_weight_here(class, pl->nr_cpus ?: 1);
	tree_reweigh(&class->node, own + division_more(more, all_more, pl->classes_left));
	return 0;
}

/* What the root weighs beside its classes; what they may have beyond their promises is the place's `classes_left`. */
static __always_inline u64 class_divide(struct place __arena *pl)
{
	u64 promised = pl->classes_promised;
	u64 root_weight = pl->root_weight ?: division_root(pl->root.nominal_weight, promised);
	u64 taken = promised + (pl->root.node.active ? root_weight : 0);

	pl->classes_left = pl->root_weight    ? pl->more_weight :
			   taken < WEIGHT_ONE ? WEIGHT_ONE - taken :
						0;
	return root_weight;
}

/*
 * To be called when the load of an account in a class has changed, or may have changed elsewhere. A class without a runnable
 * task keeps its weight: the one that has just gone to sleep is charged yet.
 */
static __always_inline void class_weigh_all(struct place __arena *pl)
{
	struct tree_node __arena *root = &pl->root.node;
	struct group __arena *class;
	u64 root_weight;

	class_sum(pl, class_cpus_weight(pl));
	root_weight = class_divide(pl);
	if (root->parent)
		tree_reweigh(root, root_weight);
	for (class = pl->classes; class && can_loop; class = class->next_class)
		if (class->load)
			class_weigh_one(pl, class);
}

/* The same as a function. */
core_fn class_weigh(struct place __arena *pl in_arena)
{
	class_weigh_all(pl);
	return 0;
}

/* The reservation that a node is below; NULL: it is below the root. A reserved cgroup keeps the level that it had there. */
static __always_inline struct tree_node __arena *promise_above(struct tree_node __arena *n)
{
	while (can_loop) {
		struct group __arena *g = n->parent;

		if (!g)
			break;
		if (g->nominal_weight)
			return g->level ? n : NULL;
		n = &g->node;
	}
	return NULL;
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
