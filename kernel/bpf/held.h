/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lists of tasks that limits hold (limits.h): one for each limit and shard, linked by what links a task among those that wait,
 * where it is not meanwhile.
 *
 * Every function here is called with the shard's lock held.
 */
#ifndef CONSORT_HELD_H
#define CONSORT_HELD_H

#include "state.h"

/* The tasks that a limit holds in a shard. */
static inline struct held __arena *held_in(struct group_set __arena *set, u32 shard)
{
	return (struct held __arena *)(set->groups + nr_places()) + shard;
}

/* The task is held no more. */
static __always_inline void unhold(struct task __arena *t)
{
	struct waiter __arena *w = &t->member.waiter, *before = w->before, *next = w->next;
	struct held __arena *list = held_in(t->held_by, shard_of_place(t->place));

	if (before)
		before->next = next;
	else
		list->first = next;
	if (next)
		next->before = before;
	else
		list->last = before;
	__sync_fetch_and_add(&t->held_by->limit.nr_held, -1);
	t->held_by = NULL;
}

static __always_inline void hold_last(struct task __arena *t, struct group_set __arena *set)
{
	struct held __arena *list = held_in(set, shard_of_place(t->place));
	struct waiter __arena *w = &t->member.waiter;

	t->held_by = set;
	__sync_fetch_and_add(&set->limit.nr_held, 1);
	w->before = list->last;
	w->next = NULL;
	if (list->last)
		list->last->next = w;
	else
		list->first = w;
	list->last = w;
}

static __always_inline void hold_first(struct task __arena *t, struct group_set __arena *set)
{
	struct held __arena *list = held_in(set, shard_of_place(t->place));
	struct waiter __arena *w = &t->member.waiter;

	t->held_by = set;
	__sync_fetch_and_add(&set->limit.nr_held, 1);
	w->before = NULL;
	w->next = list->first;
	if (list->first)
		list->first->before = w;
	else
		list->last = w;
	list->first = w;
}

#endif
