/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Take: which of the tasks that wait in a place a CPU of another one takes.
 *
 * Problem  The task that would run next there need not be one that may come, nor one that is worth the move.
 * Rule     Of the first STEAL_LOOKS that may run on the CPU it takes the first; or that which has waited for longest; or, where
 *          reserved tasks are divided anew, that of the class which goes first which has been promised most, and no more than
 *          fits: large ones first, as those that are small fit in the end.
 * Source   longest processing time first, for loads of machines (Graham 1969).
 * Limits   Tasks that are looked at and stay are out of their queue meanwhile.
 *
 * Every function here is called with the lock of the place's shard held.
 */
#ifndef CONSORT_TAKE_H
#define CONSORT_TAKE_H

#include "custody.h"

/* How many tasks of a place are looked at: those of CPUs' own places may be bound elsewhere. */
#define STEAL_LOOKS 8

/* Whether a CPU may take a task: into its own place only if nobody is there, or if it `crowds`. */
static inline bool may_take(const struct task __arena *t, u32 cpu, bool crowds)
{
	struct task_struct *p = bpf_task_from_pid(t->pid);
	u32 place;
	bool may = false;

	if (!p)
		return false;
	if (may_run_on(t, p, cpu)) {
		place = place_for(p, cpu, t->stays, false);
		may = crowds || !is_own(place) || !place_at(place)->root.nr_active;
	}
	bpf_task_release(p);
	return may;
}

/* What a task has been promised here, as a load: its part of its reservation's; 0 if it has no reservation. */
static inline u64 promised_to(struct task __arena *t)
{
	const struct group __arena *home = pays_of(t)->parent;
	struct tree_node __arena *n = promise_above(pays_of(t));

	if (!n || n->kind < NODE_FAIR || !home->load)
		return 0;
	return group_of(n)->load_above * t->load / home->load;
}

/* The task of a thief's choice is hidden while the thief looks on, among `others`. */
static inline void hide(struct choice __arena *best, struct task __arena **others)
{
	struct task __arena *t = task_of_node(best->task);

	task_hide(t);
	best->task = NULL;
	t->next_free = *others;
	*others = t;
}

/* Those that were hidden while a thief looked wait again. */
static inline void show_all(struct task __arena *others, u64 now_ns)
{
	while (others && can_loop) {
		struct task __arena *t = others;

		others = t->next_free;
		task_show(t, now_ns);
	}
}

/* Of the tasks that a place would run next, takes the first that may run on `cpu` from its queue: the CPU's `own_choice`. */
core_fn take_first_for(struct place __arena *pl in_arena, u32 cpu, u64 now_ns)
{
	struct choice __arena *best = &cpu_at(cpu)->own_choice;
	struct task __arena *t, *others = NULL;

	USES_ARENA();
	/* A task that runs there is in no queue: the virtual time must not pass it, nor those that are only looked at. */
	best->looks = 1;
	for (u32 look = hidden(0); look < STEAL_LOOKS && can_loop; look = hidden(look + 1)) {
		place_choose(pl, NULL, NULL, now_ns, best);
		if (!best->task)
			break;
		t = task_of_node(best->task);
		if (may_take(t, cpu, false)) {
			task_take(t);
			break;
		}
		hide(best, &others);
	}
	best->looks = 0;
	show_all(others, now_ns);
	return 0;
}

/* The class that goes first of those in which tasks of the place wait; NULL: in none. */
static inline struct group __arena *first_class(struct place __arena *pl)
{
	struct tree_node __arena *n = group_first(&pl->top);

	if (n == &pl->root.node)
		n = group_second(&pl->top);
	return n ? group_of(n) : NULL;
}

/* The same of that class' tasks that have been promised no more than `most`, as a load: the one that has been promised most. */
core_fn take_promised_for(struct place __arena *pl in_arena, u32 cpu, u64 most, bool crowds,
			  u64 now_ns)
{
	struct choice __arena *best = &cpu_at(cpu)->own_choice;
	struct task __arena *t, *largest = NULL, *others = NULL;
	struct group __arena *class;
	u64 promised, found = 0;

	USES_ARENA();
	best->looks = 1;
	best->running = NULL;
	best->running_seat = NULL;
	best->task = NULL;
	for (u32 look = hidden(0); look < STEAL_LOOKS && can_loop; look = hidden(look + 1)) {
		class = first_class(pl);
		if (!class)
			break;
		place_descend(class, now_ns, best);
		if (!best->task)
			break;
		t = task_of_node(best->task);
		promised = promised_to(t);
		if (promised > found && promised <= most && may_take(t, cpu, crowds)) {
			found = promised;
			largest = t;
		}
		hide(best, &others);
	}
	best->looks = 0;
	show_all(others, now_ns);
	if (largest) {
		task_take(largest);
		best->task = &largest->member.node;
	}
	return 0;
}

/* Takes the task that has waited for longest of those that may run on `cpu`. */
core_fn take_oldest_for(struct place __arena *pl in_arena, u32 cpu, bool crowds)
{
	struct choice __arena *best = &cpu_at(cpu)->own_choice;
	struct waiter __arena *w = pl->waiters.first;

	USES_ARENA();
	best->task = NULL;
	for (u32 look = hidden(0); w && look < STEAL_LOOKS && can_loop; look = hidden(look + 1)) {
		struct task __arena *t = task_of_node(&outer_of(w, struct member, waiter)->node);

		if (may_take(t, cpu, crowds)) {
			task_take(t);
			best->task = &t->member.node;
			break;
		}
		w = w->next;
	}
	return 0;
}

#endif
