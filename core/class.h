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
 * Bound    That of tree.h, period.h or rc.h at each level; a class waits for one quantum of each other class and its
 *          own q / R (004 section 5), however many members the others have. Due events of domains may put the root
 *          ahead of the classes by a window and a quantum more.
 * Source   004 sections 3 and 5: every class is proxied; 001 (hierarchical stride) for what sleepers leave: it goes to the
 *          others in proportion to their capacities.
 * Limits   A class that is active in several places has its whole capacity's part of each.
 */
#ifndef CORE_CLASS_H
#define CORE_CLASS_H

#include "place.h"

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
