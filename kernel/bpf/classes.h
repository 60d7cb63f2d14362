/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Classes: parts of the machine among which reservations are divided, by the table that the loader writes.
 *
 * Rule     A class is a group in each place (core/class.h), and each place knows of all that there are. One that the table does
 *          not have any more goes when nobody has reserved in it; so its order may change.
 */
#ifndef CONSORT_CLASSES_H
#define CONSORT_CLASSES_H

#include "groups.h"
#include "members.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES_MAX);
	__type(key, u32);
	__type(value, u64); /* the class' struct class_set; 0: none */
} classes SEC(".maps");

static inline struct class_set __arena *find_class(u32 id)
{
	u64 *at = bpf_map_lookup_elem(&classes, &id);

	return at ? (struct class_set __arena *)*at : NULL;
}

static inline u64 class_set_bytes(void)
{
	return sizeof(struct class_set) + nr_places() * sizeof(struct group);
}

/* A class' place in the tables' arrays. */
static inline u32 class_index(u32 id)
{
	/* Keeps the compiler from proving the mask needless: the verifier cannot follow its proof. */
	asm volatile("" : "+r"(id));
	return id & (CLASSES_MAX - 1);
}

/* enum node_kind of a class' groups. */
static inline u8 kind_of(u32 id)
{
	switch (class_table.order[class_index(id)]) {
	case CONSORT_CLASS_FRC:
		return NODE_FAIR;
	case CONSORT_CLASS_RC:
		return NODE_RC;
	default:
		return NODE_PERIOD;
	}
}

static inline bool changes_order(struct class_set __arena *class, u32 id)
{
	return group_in(&class->set, nth_place(0))->node.kind != kind_of(id);
}

static inline struct class_set __arena *class_create(u32 id)
{
	struct class_set __arena *class = alloc_pages(class_set_bytes());
	u64 at = (u64) class;

	if (!class)
		return NULL;
	class->set.parent = root_set;
	class->set.level = 1;
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_at(nth_place(i));
		struct group __arena *top = &pl->top, *g = group_in(&class->set, nth_place(i));

		g->node.kind = kind_of(id);
		g->node.weight = 1;
		g->node.parent = top;
		g->node.vtime = top->vmin;
		g->level = 1;
		g->nominal_weight = 1;
		if (!one_cpu)
			g->ledger = &class->set.ledger;
	}
	bpf_map_update_elem(&classes, &id, &at, BPF_ANY);
	return class;
}

static inline u32 capacity_of(u32 id)
{
	return class_table.capacity[class_index(id)];
}

/* What the table says of a class that has a capacity. Its order changes while it has no reservations. */
static inline void class_follow(struct class_set __arena *class, u32 id)
{
	u64 now_ns = bpf_ktime_get_ns();

	set_weights(&class->set, capacity_of(id));
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		struct group __arena *g = group_in(&class->set, nth_place(i));

		g->capacity = (u64)capacity_of(id) * topology.nr_present;
		g->nominal_weight = capacity_of(id);
		if (class->nr_reservations)
			continue;
		g->node.kind = kind_of(id);
		if (g->node.kind == NODE_RC)
			g->vmin = rc_vtime(now_ns);
	}
}

/* Whether the table can be followed: errors are found before anything is changed. */
static inline u32 classes_check(void)
{
	if (!class_table.flexible)
		return EINVAL;
	for (u32 id = hidden(0); id < CLASSES_MAX && can_loop; id = hidden(id + 1)) {
		struct class_set __arena *class = find_class(id);
		u32 capacity = capacity_of(id);

		if (class && class->nr_reservations && (!capacity || changes_order(class, id)))
			return EBUSY;
		if (capacity && !class && !class_create(id))
			return ENOMEM;
	}
	return 0;
}

/* Each place knows of the classes that there are. */
static inline void classes_link(void)
{
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(i);
		struct place __arena *pl = place_at(place);
		struct lock __arena *l = &shard_at(shard_of_place(place))->lock;
		unsigned long flags;

		bpf_local_irq_save(&flags);
		lock_take(l);
		pl->root.nominal_weight = class_table.flexible;
		pl->classes = NULL;
		for (u32 id = hidden(0); id < CLASSES_MAX && can_loop; id = hidden(id + 1)) {
			struct class_set __arena *class = find_class(id);
			struct group __arena *g = class ? group_in(&class->set, place) : NULL;

			if (!g)
				continue;
			g->next_class = pl->classes;
			pl->classes = g;
		}
		lock_release(l);
		bpf_local_irq_restore(&flags);
	}
}

/* Nobody is in the class any more: domains that had borrowed enough there, and sleep since, may do so elsewhere. */
static inline void class_let_go(struct class_set __arena *class)
{
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(i);
		struct heap __arena *blocked = &group_in(&class->set, place)->blocked;
		struct lock __arena *l = &shard_at(shard_of_place(place))->lock;
		unsigned long flags;

		bpf_local_irq_save(&flags);
		lock_take(l);
		while (blocked->top && can_loop)
			place_refresh(place_at(place), domain_of_upcoming(blocked->top));
		lock_release(l);
		bpf_local_irq_restore(&flags);
	}
}

call_fn consort_classes(struct consort_classes_args *args)
{
	USES_ARENA();
	u64 none = 0;

	args->error = classes_check();
	if (args->error)
		return 0;
	for (u32 id = hidden(0); id < CLASSES_MAX && can_loop; id = hidden(id + 1)) {
		struct class_set __arena *class = find_class(id);

		if (!class)
			continue;
		if (capacity_of(id)) {
			class_follow(class, id);
			continue;
		}
		bpf_map_update_elem(&classes, &id, &none, BPF_ANY);
		classes_link();
		class_let_go(class);
		free_pages(class, class_set_bytes());
	}
	classes_link();
	set_weights(root_set, class_table.flexible);
	return 0;
}

#endif
