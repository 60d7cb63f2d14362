/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads: what active tasks, and so their accounts and classes, weigh in their places, for the shards to be compared by
 * (balance.h, speeds.h). One CPU compares nothing.
 *
 * Every function here is called with the lock of the task's shard held.
 */
#ifndef CONSORT_LOADS_H
#define CONSORT_LOADS_H

#include "state.h"

/* What classes weigh where a task of one is runnable follows what has been promised there. */
core_fn promises_follow(struct task __arena *t in_arena)
{
	class_weigh_all(place_at(t->place));
	return 0;
}

/* The load of an active task: one CPU's worth at most where its account is in several queues. */
static __always_inline u64 load_of(const struct task __arena *t)
{
	const struct group __arena *home = group_in(t->home, t->place);
	u64 load = load_of_weight(t->member.node.weight), most = group_worth(home, t->load, 1);

	return load < most ? load : most;
}

/* A task's load has changed: so have the weights of its accounts in the other places of its shard, but for CPUs' own. */
core_fn weights_follow(struct task __arena *t in_arena)
{
	u32 shard = shard_of_place(t->place);

	USES_ARENA();
	for (u32 i = hidden(0); i <= subsets_of_shard() && can_loop; i = hidden(i + 1)) {
		u32 place = i ? place_of_subset(shard, i - 1) : place_of_shard(shard);

		if (place != t->place && place_at(place)->nr_runnable)
			tree_follow_weights(group_in(t->home, place));
	}
	return 0;
}

/* What weighs in a place is about to change, or is looked at: tasks that seldom run weigh for as long as they do. */
static __always_inline void giver_weigh(struct giver __arena *g, const struct place __arena *pl,
					u64 now_ns)
{
	u64 parts = (now_ns - g->weighed_until_ns) >> 10;

	g->weighed += pl->root.load * parts;
	g->weighed_until_ns += parts << 10;
}

/* The same of the place that a task is in. */
core_fn place_weigh(struct task __arena *t in_arena)
{
	giver_weigh(giver_at(t->place), place_at(t->place), bpf_ktime_get_ns());
	return 0;
}

static __always_inline void set_load(struct task __arena *t, u64 load)
{
	u64 more = load - t->load;

	if (more && !one_cpu)
		place_weigh(t);
	tree_load(group_in(t->home, t->place), more, !!load - !!t->load);
	t->load = load;
	if (more && (t->place >= SHARDS_MAX || shard_at(t->place)->nr_in_subsets))
		weights_follow(t);
	if (place_at(t->place)->top.load)
		promises_follow(t);
}

/* Tells the ledgers of its accounts that a task has become active, or ceases to be. */
static __always_inline void count_load(struct task __arena *t, bool more)
{
	if (!one_cpu)
		set_load(t, more ? load_of(t) : 0);
}

/* A task that runs: its accounts follow what they have become in other queues, and what they can use. */
static __always_inline void follow_loads(struct task __arena *t, u64 now_ns)
{
	tree_look_loads(group_in(t->home, t->place), now_ns);
	set_load(t, load_of(t));
}

#endif
