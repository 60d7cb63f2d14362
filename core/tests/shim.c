/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The policy's inline functions as functions that Rust can call: each is the one of the same name after core_. */
#include "class.h"
#include "compare.h"
#include "hot.h"
#include "limit.h"
#include "nice.h"

/* ---- heap.h ---- */

int core_heap_key_before(u64 major_a, u64 minor_a, u64 major_b, u64 minor_b)
{
	return heap_key_before(major_a, minor_a, major_b, minor_b);
}

int core_heap_turn_before(u64 major_a, u64 minor_a, u32 turn_a, u64 major_b, u64 minor_b, u32 turn_b)
{
	return heap_turn_before(major_a, minor_a, turn_a, major_b, minor_b, turn_b);
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

u64 core_slice_ns(u64 granularity_ns, u64 min_slice_ns, u32 nr_runnable)
{
	return slice_ns(granularity_ns, min_slice_ns, nr_runnable);
}

u64 core_protected_slice_ns(u64 granularity_ns, u64 min_slice_ns, u32 nr_cpus)
{
	return protected_slice_ns(granularity_ns, min_slice_ns, nr_cpus);
}

u64 core_members_slice_ns(u64 slice, u32 nr_members, u64 most_ns)
{
	return members_slice_ns(slice, nr_members, most_ns);
}

u64 core_first_turn_average_ns(u64 granularity_ns, u32 nr_runnable)
{
	return first_turn_average_ns(granularity_ns, nr_runnable);
}

u64 core_first_turn_beside_ns(u64 turn_ns, u64 period_ns)
{
	return first_turn_beside_ns(turn_ns, period_ns);
}

u64 core_slice_beside_ns(u64 slice, u64 min_slice_ns, u64 period_ns)
{
	return slice_beside_ns(slice, min_slice_ns, period_ns);
}

/* ---- live.h, ledger.h ---- */

void core_live_wait(struct waiters *all, struct waiter *w, u64 now_ns)
{
	live_wait(all, w, now_ns);
}

void core_live_wait_on(struct waiters *all, struct waiter *w, u64 since_ns)
{
	live_wait_on(all, w, since_ns);
}

void core_live_wait_no_more(struct waiters *all, struct waiter *w)
{
	live_wait_no_more(all, w);
}

struct waiter *core_live_overdue(const struct waiters *all, u64 now_ns)
{
	return live_overdue(all, now_ns);
}

u64 core_load_of_weight(u64 weight)
{
	return load_of_weight(weight);
}

void core_ledger_ran(struct ledger *l, u64 here, u64 ns)
{
	ledger_ran(l, here, ns);
}

void core_ledger_look(struct ledger *l, u64 now_ns)
{
	served_look(&l->served, l->ran_ns, now_ns);
}

u64 core_ledger_worth(const struct ledger *l, u64 own, u64 cpus)
{
	return ledger_worth(l, own, cpus);
}

/* ---- limit.h ---- */

void core_limit_set(struct limit *l, u64 quota_ns, u64 period_ns, u64 burst_ns, u64 now_ns)
{
	limit_set(l, quota_ns, period_ns, burst_ns, now_ns);
}

int core_limit_binds(struct limit *l, u64 now_ns)
{
	return limit_binds(l, now_ns);
}

u64 core_limit_take_left(struct limit *l, u64 most_ns, u64 now_ns)
{
	return limit_take_left(l, most_ns, now_ns);
}

void core_limit_take(struct limit *l, s64 ns)
{
	limit_take(l, ns);
}

/* ---- tree.h, decide/ ---- */

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

void core_group_exchange(struct group *g, struct tree_node *out, struct tree_node *in)
{
	group_exchange(g, out, in);
}

u64 core_tree_part_ns(const struct tree_node *n, u64 average_ns, u64 most_ns)
{
	return tree_part_ns(n, average_ns, most_ns);
}

void core_period_keep_up(struct tree_node *n, u64 now_ns)
{
	period_keep_up(n, now_ns);
}

void core_tree_charge(struct tree_node *n, u64 ns)
{
	tree_charge(n, ns);
}

void core_tree_count(struct tree_node *n, u64 ns)
{
	tree_count(n, ns);
}

void core_tree_fly(struct group *g, u64 ns)
{
	tree_fly(g, ns);
}

void core_tree_enqueue(struct tree_node *n)
{
	tree_enqueue(n);
}

void core_tree_dequeue(struct tree_node *n)
{
	tree_dequeue(n);
}

void core_tree_exchange(struct tree_node *out, struct tree_node *in)
{
	tree_exchange(out, in);
}

void core_tree_activate(struct tree_node *n, u64 now_ns)
{
	tree_activate(n, now_ns);
}

void core_tree_deactivate(struct tree_node *n)
{
	tree_deactivate(n);
}

void core_tree_load(struct group *g, u64 load, u32 nr)
{
	tree_load(g, load, nr);
}

void core_tree_set_account_weight(struct group *g, u64 weight)
{
	tree_set_account_weight(g, weight);
}

void core_tree_set_promise(struct tree_node *n, u64 weight, u64 period_vtime, u64 turn_vtime)
{
	tree_set_promise(n, weight, period_vtime, turn_vtime);
}

void core_tree_reweigh(struct tree_node *n, u64 weight)
{
	tree_reweigh(n, weight);
}

u64 core_tree_take_lead_ns(struct tree_node *n)
{
	return tree_take_lead_ns(n);
}

void core_tree_move(struct tree_node *n, struct group *to, u64 lead_ns)
{
	tree_move(n, to, lead_ns);
}

int core_tree_is_first(struct tree_node *n, struct group *until)
{
	return tree_is_first(n, until);
}

struct tree_node *core_tree_member_above(struct tree_node *n, struct group *g)
{
	return tree_member_above(n, g);
}

u64 core_fair_lag_max(const struct group *g, const struct tree_node *n)
{
	return fair_lag_max(g, n);
}

/* ---- borrow.h, place.h ---- */

void core_place_refresh(struct place *pl, struct domain *d)
{
	place_refresh(pl, d);
}

void core_place_unblock(struct place *pl, struct tree_node *n)
{
	place_unblock(pl, n);
}

int core_place_settle(struct place *pl, u64 now_ns)
{
	return place_settle(pl, now_ns);
}

void core_place_wait(struct place *pl, struct member *m, u64 now_ns)
{
	place_wait(pl, m, now_ns);
}

void core_place_wait_no_more(struct place *pl, struct member *m)
{
	place_wait_no_more(pl, m);
}

void core_place_choose(struct place *pl, struct tree_node *running, struct tree_node *pays,
		       u64 now_ns, struct choice *c)
{
	/* As the host does: what the simple way decides is held to the same bounds. */
	if (!place_choose_plain(pl, running, pays, now_ns, c))
		place_choose(pl, running, pays, now_ns, c);
}

int core_hot_goes_first(struct choice *c, const struct tree_node *n)
{
	return hot_goes_first(c, n);
}

u64 core_place_compare_at_ns(struct place *pl, struct tree_node *pays, u64 now_ns, u64 slice)
{
	return place_compare_at_ns(pl, pays, now_ns, slice);
}

/* ---- class.h ---- */

u64 core_class_wants(struct group *class, u64 cpus_weight)
{
	return class_wants(class, cpus_weight);
}

void core_place_activated(struct place *pl, struct tree_node *n)
{
	place_activated(pl, n);
}

void core_place_deactivated(struct place *pl)
{
	place_deactivated(pl);
}
