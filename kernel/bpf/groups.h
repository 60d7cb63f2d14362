/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cgroups: each is a group set, found by the cgroup's id.
 *
 * Limits   A cgroup for which there is no room, or that lies deeper than the tree goes, has no groups of its own: its
 *          tasks are scheduled as those of the nearest cgroup above it that has, its weight counts for nothing, and it
 *          cannot be reserved for. It stays so until it ends.
 */
#ifndef CONSORT_GROUPS_H
#define CONSORT_GROUPS_H

#include "members.h"
#include "nice.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GROUPS_MAX);
	__type(key, u64); /* the cgroup's id */
	__type(value, u64); /* its struct group_set */
} group_sets SEC(".maps");

/* The root, if the cgroup has none. */
static inline struct group_set __arena *find_group_set(u64 id)
{
	u64 *at = bpf_map_lookup_elem(&group_sets, &id);

	return at ? (struct group_set __arena *)*at : root_set;
}

/* The groups that a cgroup's tasks compete in: its own, or those of the nearest one above it that has some. */
static inline struct group_set __arena *group_set_of(const struct cgroup *cgrp)
{
	const struct cgroup_subsys_state *css = &cgrp->self;
	u64 *at = NULL, id;

	while (css && can_loop) {
		id = BPF_CORE_READ(css, cgroup, kn, id);
		at = bpf_map_lookup_elem(&group_sets, &id);
		if (at)
			break;
		css = BPF_CORE_READ(css, parent);
	}
	return at ? (struct group_set __arena *)*at : root_set;
}

/* The groups of a task's cgroup. */
static inline struct group_set __arena *cgroup_of(const struct task_struct *p)
{
	return group_set_of(p->sched_task_group->css.cgroup);
}

core_fn group_set_init(struct group_set __arena *set in_arena, u64 id,
		       struct group_set __arena *parent in_arena, u32 weight)
{
	set->id = id;
	set->parent = parent;
	set->level = parent->level + 1;
	set->weight = weight;
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(i);
		struct group __arena *g = group_in(set, place);

		if (!one_cpu)
			g->ledger = &set->ledger;
		g->of_one_cpu = one_cpu || is_own(place);
		g->is_balanced = place < topology.nr_shards && topology.nr_shards > 1;
		g->node.kind = NODE_FAIR;
		g->node.weight = weight;
		g->weight_seen = weight;
		g->node.parent = group_in(parent, place);
		g->node.vtime = fair_sleepers_vmin(g->node.parent);
		g->level = set->level;
	}
	return 0;
}

/* One group's weight in all places. */
core_fn set_weights(struct group_set __arena *set in_arena, u32 weight)
{
	unsigned long flags;

	set->weight = weight;
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		struct shard __arena *s = shard_at(shard_of_place(nth_place(i)));

		bpf_local_irq_save(&flags);
		lock_take(&s->lock);
		tree_set_account_weight(group_in(set, nth_place(i)), weight);
		if (!one_cpu)
			tree_load(group_in(set, nth_place(i)), 0, 0);
		lock_release(&s->lock);
		bpf_local_irq_restore(&flags);
	}
	return 0;
}

/* Groups below the parent's, if there is room: memory, an entry of the map, and a level of the tree. */
static inline bool group_set_make(u64 id, struct group_set __arena *parent, u32 weight)
{
	struct group_set __arena *set;
	u64 at;

	if (parent->level + 1 >= TREE_DEPTH_MAX)
		return false;
	set = alloc_pages(group_set_bytes());
	if (!set)
		return false;
	group_set_init(set, id, parent, weight);
	at = (u64)set;
	if (!bpf_map_update_elem(&group_sets, &id, &at, BPF_ANY))
		return true;
	free_pages(set, group_set_bytes());
	return false;
}

static inline void limit_become(struct group_set __arena *set, u64 period_us, u64 quota_us,
				u64 burst_us);
static inline void limit_end(struct group_set __arena *set);

static inline u32 weight_at_first(const struct scx_cgroup_init_args *args)
{
	if (bpf_core_field_exists(args->sched_idle) && args->sched_idle)
		return WEIGHT_OF_IDLE;
	return weight_of_cgroup(args->weight);
}

/* Never fails, since nobody could make a cgroup then: one without groups of its own shares those above it. */
SEC("struct_ops.s/consort_cgroup_init")
s32 BPF_PROG(consort_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	USES_ARENA();
	u64 id = cgrp->kn->id, at = (u64)root_set;

	if (!cgrp->level) {
		root_set->id = id;
		bpf_map_update_elem(&group_sets, &id, &at, BPF_ANY);
	} else if (!group_set_make(id, group_set_of(cgrp), weight_at_first(args))) {
		count_on(bpf_get_smp_processor_id())->shared_cgroups++;
	} else {
		limit_become(find_group_set(id), args->bw_period_us, args->bw_quota_us,
			     args->bw_burst_us);
	}
	return 0;
}

SEC("struct_ops.s/consort_cgroup_exit")
void BPF_PROG(consort_cgroup_exit, struct cgroup *cgrp)
{
	USES_ARENA();
	u64 id = cgrp->kn->id;
	struct group_set __arena *set = find_group_set(id);

	if (set != root_set && set->id == id) {
		if (set->nr_riders)
			evict_riders(set);
		set_end_flights(set);
		limit_end(set);
		free_pages(set, group_set_bytes());
	}
	bpf_map_delete_elem(&group_sets, &id);
}

SEC("struct_ops/consort_cgroup_move")
void BPF_PROG(consort_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	USES_ARENA();
	struct group_set __arena *set = group_set_of(to);
	struct task __arena *t = task_of(p);
	struct lock __arena *l;

	if (!t)
		return;
	l = task_lock(t);
	/* What it has had is its old cgroup's. */
	if (nr_limits)
		charge_until_now(t);
	/* A reservation holds wherever its tasks are; its end brings them home. */
	if (t->rides && !t->own.reservation)
		t->own.home = set;
	else if (!t->rides && !t->reservation)
		task_move(t, set, t->set, t->place, t->demoted);
	lock_release(l);
	/* The kernel has its CPU choose: it is to take from the budget of its new cgroup. */
	if (nr_limits && scx_bpf_task_running(p))
		set_slice(p, 0);
	if (t->blocked)
		lend_on(t, t);
}

/* cpu.idle; one that is not idle any more weighs what it does by default. Linux 6.18 does not tell. */
SEC("struct_ops/consort_cgroup_set_idle")
void BPF_PROG(consort_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	USES_ARENA();
	struct group_set __arena *set = find_group_set(cgrp->kn->id);

	if (set != root_set && set->id == cgrp->kn->id)
		set_weights(set, idle ? WEIGHT_OF_IDLE : WEIGHT_ONE);
}

SEC("struct_ops/consort_cgroup_set_weight")
void BPF_PROG(consort_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	USES_ARENA();
	struct group_set __arena *set = find_group_set(cgrp->kn->id);

	if (set != root_set && set->id == cgrp->kn->id)
		set_weights(set, weight_of_cgroup(weight));
}

#endif
