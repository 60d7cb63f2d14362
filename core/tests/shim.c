/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The policy's inline functions as functions that Rust can call: each is the one of the same name after core_. */
#include "class.h"
#include "nice.h"
#include "place.h"

/* ---- heap.h ---- */

int core_heap_key_before(u64 major_a, u64 minor_a, u64 major_b, u64 minor_b)
{
	return heap_key_before(major_a, minor_a, major_b, minor_b);
}

void core_heap_push(struct heap *h, struct heap_link *l, u64 major, u64 minor)
{
	heap_push(h, l, major, minor);
}

void core_heap_remove(struct heap *h, struct heap_link *l)
{
	heap_remove(h, l);
}

void core_heap_move(struct heap *h, struct heap_link *l, u64 major, u64 minor)
{
	heap_move(h, l, major, minor);
}

/* ---- vtime.h, nice.h, slice.h ---- */

int core_vtime_before(u64 a, u64 b)
{
	return vtime_before(a, b);
}

u64 core_vtime_max(u64 a, u64 b)
{
	return vtime_max(a, b);
}

u64 core_vtime_of_ns(u64 ns, u64 weight)
{
	return vtime_of_ns(ns, weight);
}

u64 core_vtime_to_ns(u64 vtime, u64 weight)
{
	return vtime_to_ns(vtime, weight);
}

u32 core_weight_of_nice(s32 nice)
{
	return weight_of_nice(nice);
}

u32 core_weight_of_cgroup(u32 weight)
{
	return weight_of_cgroup(weight);
}

u64 core_slice_ns(u64 granularity_ns, u64 min_slice_ns, u32 nr_runnable, u32 nr_members)
{
	return slice_ns(granularity_ns, min_slice_ns, nr_runnable, nr_members);
}

u64 core_slice_beside_ns(u64 slice, u64 min_slice_ns, u64 period_ns)
{
	return slice_beside_ns(slice, min_slice_ns, period_ns);
}

/* ---- tree.h, rc.h ---- */

u64 core_rc_vtime(u64 now_ns)
{
	return rc_vtime(now_ns);
}

u64 core_rc_weight(const struct group *g, const struct tree_node *n)
{
	return rc_weight(g, n);
}

u64 core_node_weight(const struct tree_node *n)
{
	return node_weight(n);
}

void core_tree_charge(struct tree_node *n, u64 ns)
{
	tree_charge(n, ns);
}

void core_tree_enqueue(struct tree_node *n, u64 major, u64 minor)
{
	tree_enqueue(n, major, minor);
}

void core_tree_dequeue(struct tree_node *n)
{
	tree_dequeue(n);
}

void core_tree_exchange(struct tree_node *out, struct tree_node *in, u64 major, u64 minor)
{
	tree_exchange(out, in, major, minor);
}

void core_tree_activate(struct tree_node *n, u64 now_ns)
{
	tree_activate(n, now_ns);
}

void core_tree_deactivate(struct tree_node *n)
{
	tree_deactivate(n);
}

void core_tree_set_weight(struct tree_node *n, u64 weight)
{
	tree_set_weight(n, weight);
}

void core_tree_move(struct tree_node *n, struct group *to, u64 ahead_max)
{
	tree_move(n, to, ahead_max);
}

int core_tree_is_first(struct tree_node *n)
{
	return tree_is_first(n);
}

struct tree_node *core_tree_member_above(struct tree_node *n, struct group *g)
{
	return tree_member_above(n, g);
}

/* ---- coop.h ---- */

int core_member_due_counts(const struct member *m, const struct domain *d)
{
	return member_due_counts(m, d);
}

void core_member_best_key(const struct member *m, const struct domain *d, u64 *major, u64 *minor)
{
	member_best_key(m, d, major, minor);
}

void core_member_publish(struct member *m, u64 due_ns, u32 priority, u64 key, u64 now_ns)
{
	member_publish(m, due_ns, priority, key, now_ns);
}

void core_domain_enqueue(struct domain *d, struct member *m, u64 now_ns)
{
	domain_enqueue(d, m, now_ns);
}

void core_domain_dequeue(struct domain *d, struct member *m)
{
	domain_dequeue(d, m);
}

void core_domain_sleep(struct domain *d, struct member *m)
{
	domain_sleep(d, m);
}

void core_domain_wake(struct domain *d, struct member *m)
{
	domain_wake(d, m);
}

void core_domain_charge_due(struct domain *d, struct member *m, u64 ran_ns, u64 now_ns)
{
	domain_charge_due(d, m, ran_ns, now_ns);
}

u64 core_domain_next_due_ns(const struct domain *d)
{
	return domain_next_due_ns(d);
}

/* ---- place.h ---- */

u64 core_domain_may_borrow_at(const struct place *pl, const struct domain *d)
{
	return domain_may_borrow_at(pl, d);
}

int core_place_may_borrow(const struct place *pl, const struct domain *d)
{
	return place_may_borrow(pl, d);
}

void core_place_refresh(struct place *pl, struct domain *d)
{
	place_refresh(pl, d);
}

void core_place_choose(struct place *pl, struct tree_node *running, u64 now_ns, struct choice *c)
{
	place_choose(pl, running, now_ns, c);
}

u64 core_place_compare_at_ns(struct place *pl, struct tree_node *running, u64 now_ns, u64 slice)
{
	return place_compare_at_ns(pl, running, now_ns, slice);
}

/* ---- class.h ---- */

void core_place_activated(struct place *pl, struct tree_node *n)
{
	place_activated(pl, n);
}

void core_place_deactivated(struct place *pl)
{
	place_deactivated(pl);
}
