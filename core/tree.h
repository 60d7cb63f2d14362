/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The tree of accounts: groups, their members, and who is entitled to run next.
 *
 * Problem  Members with weights, nested in groups with weights, must each receive their part at every level.
 * Rule     Every member has a virtual time in its group. Running charges the seat that was picked and all its ancestors. A
 *          group with a member that waits is itself a waiting member of its parent. At each level the group's decision
 *          function (decide.h) says who is entitled. A member that moves takes its lead along, as CPU time: to another
 *          group, another queue, another weight, be it that of its account's part of a queue. Nothing is forgotten by leaving
 *          and coming back.
 * Bound    That of each group's decision function. What a move may forget of a lead is beyond LEAD_MAX_NS.
 * Source   000 section 2.3.3 (borrowing); 001 (hierarchical stride); 004 Lemma 1; the conservation of lag is EEVDF's.
 * Limits   Deeper than TREE_DEPTH_MAX levels, members are attached to the deepest level's group. A task that leaves a group
 *          in which others are active leaves the group's own lead to these.
 */
#ifndef CORE_TREE_H
#define CORE_TREE_H

#include "decide.h"

/* Charges `ns` of CPU time to a group that is a member of another one, and to every ancestor. */
core_fn tree_charge_above(struct tree_node __arena *n in_arena, u64 ns)
{
	struct group __arena *g;

	while (can_loop) {
		g = n->parent;
		if (!g)
			break;
		group_charge(g, n, ns);
		g->ran_ns += ns;
		ledger_ran(g->ledger, g->load_here, ns);
		n = &g->node;
	}
	return 0;
}

/* The same for any node. Where nothing is nested, as in most places, no function is called and no loop begun. */
static __always_inline void tree_charge(struct tree_node __arena *n, u64 ns)
{
	struct group __arena *g = n->parent;

	if (!g)
		return;
	group_charge(g, n, ns);
	g->ran_ns += ns;
	ledger_ran(g->ledger, g->load_here, ns);
	if (g->node.parent)
		tree_charge_above(&g->node, ns);
}

/*
 * A task below `g` begins to run, and is charged when it is next compared: until then each account above it is compared as
 * if it had had `ns` already. Else all CPUs that choose meanwhile would choose the same account. Negative: it is charged.
 */
core_fn tree_fly(struct group __arena *g in_arena, u64 ns)
{
	while (can_loop) {
		struct group __arena *above;

		if (!g || !g->level)
			break;
		g->in_flight_ns += ns;
		above = g->node.parent;
		if (g->node.ready.queued && above->node.kind == NODE_FAIR)
			fair_follow(above, &g->node);
		g = above;
	}
	return 0;
}

/* Domains have so many seats more in `g`; negative: fewer. */
core_fn tree_seat(struct group __arena *g in_arena, u32 nr)
{
	while (can_loop) {
		if (!g)
			break;
		g->nr_seats += nr;
		g = g->level ? g->node.parent : NULL;
	}
	return 0;
}

/* Counts CPU time that is not charged: nobody waited for it. Those that sleep ahead repay meanwhile, at each level. */
core_fn tree_count(struct tree_node __arena *n in_arena, u64 ns)
{
	while (can_loop) {
		if (!n->parent)
			break;
		n->parent->ran_ns += ns;
		ledger_ran(n->parent->ledger, n->parent->load_here, ns);
		if (n->parent->node.kind == NODE_FAIR)
			fair_spare(n->parent, ns);
		n = &n->parent->node;
	}
	return 0;
}

/* Puts an active node among those that wait, and its ancestors with it. */
core_fn tree_enqueue(struct tree_node __arena *n in_arena)
{
	struct group __arena *g;

	while (can_loop) {
		g = n->parent;
		if (!g || n->ready.queued)
			break;
		group_enqueue(g, n);
		n = &g->node;
	}
	return 0;
}

/* Takes a node from those that wait; ancestors without another waiting member go with it. */
core_fn tree_dequeue(struct tree_node __arena *n in_arena)
{
	struct group __arena *g;

	while (can_loop) {
		g = n->parent;
		if (!g || !n->ready.queued)
			break;
		group_dequeue(g, n);
		if (g->ready.top)
			break;
		n = &g->node;
	}
	return 0;
}

/*
 * `in` begins to wait, and `out`, which waits, is taken. Where both are the only ones of their groups to wait, so do these;
 * above the group in which they meet nothing changes. They are of one place: they do meet, but the root may be below the
 * top, at the same level.
 */
core_fn tree_exchange(struct tree_node __arena *out in_arena, struct tree_node __arena *in in_arena)
{
	while (can_loop) {
		struct group __arena *from = out->parent, *to = in->parent;

		if (from == to) {
			group_exchange(from, out, in);
			return 0;
		}
		if (!from->level || from->level != to->level || from->node.kind != NODE_FAIR ||
		    to->node.kind != NODE_FAIR)
			break;
		fair_forget_lag(to, in);
		if (!heap_exchange_only(&from->ready, &out->ready, &to->ready, &in->ready,
					fair_key(in), in->has_run))
			break;
		out = &from->node;
		in = &to->node;
	}
	tree_enqueue(in);
	tree_dequeue(out);
	return 0;
}

/* A node becomes runnable: borrows up to the minimum, at each level that was not active. */
static __always_inline void tree_activate(struct tree_node __arena *n, u64 now_ns)
{
	struct group __arena *g;

	while (can_loop) {
		g = n->parent;
		if (!g || n->active)
			break;
		group_wake(g, n, now_ns);
		n->active = 1;
		g->nr_active++;
		g->weight_active += n->weight;
		n = &g->node;
	}
}

/* A node that does not wait stops being runnable. */
static __always_inline void tree_deactivate(struct tree_node __arena *n)
{
	struct group __arena *g;

	while (can_loop) {
		g = n->parent;
		if (!g || !n->active)
			break;
		if (!group_has_periods(g))
			fair_rest(g, n);
		n->active = 0;
		g->nr_active--;
		g->weight_active -= n->weight;
		if (g->nr_active)
			break;
		n = &g->node;
	}
}

/*
 * What so many CPUs are worth to those of an account, one of which counts as `own`: a member that can use no more counts no more.
 * It is known where the account is in several queues.
 */
static __always_inline u64 group_worth(const struct group __arena *g, u64 own, u64 nr)
{
	if (!g->ledger || g->node.kind != NODE_FAIR || g->load_here >= ledger_all(g->ledger))
		return ~0ULL;
	return ledger_worth(g->ledger, own, nr * LEDGER_CPU);
}

/*
 * What a group adds to its parent's load: an account in several queues the weight with which it competes in this one, but no more
 * than the CPUs are worth that its tasks here can use.
 */
static __always_inline u64 group_load_above(const struct group __arena *g)
{
	u64 load, most;

	if (!g->ledger || g->nominal_weight)
		return g->load;
	if (!g->load)
		return 0;
	load = load_of_weight(node_weight(&g->node));
	most = group_worth(g->node.parent, g->load_above, g->of_one_cpu ? 1 : g->nr_loaded);
	return load < most ? load : most;
}

/*
 * An account competes with another weight than when that was last looked at, as tasks of it have come elsewhere or gone: what
 * it is ahead stays what it is as CPU time. Else an account would wait for ten slices for the one that it had while it weighed
 * a tenth.
 */
static __always_inline void group_follow_weight(struct group __arena *g)
{
	u64 weight = node_weight(&g->node), was = g->weight_seen;
	struct group __arena *above = g->node.parent;

	g->weight_seen = weight;
	if (weight == was || !was || g->nominal_weight || above->node.kind != NODE_FAIR)
		return;
	fair_keep_lead(above, &g->node, was, weight);
}

/* The same of a group and all above it. */
core_fn tree_follow_weights(struct group __arena *g in_arena)
{
	while (can_loop) {
		if (!g || !g->level)
			break;
		group_follow_weight(g);
		g = g->node.parent;
	}
	return 0;
}

/* What a group counts in its account's ledger follows its load, and what it is served. */
static __always_inline void group_count_load(struct group __arena *g)
{
	u64 here = g->load, worth;

	if (!g->ledger)
		return;
	if (g->node.kind == NODE_FAIR && !g->is_balanced) {
		worth = ledger_worth(g->ledger, g->load_here, g->served.cpus);
		here = here < worth ? here : worth;
	}
	if (here == g->load_here)
		return;
	__sync_fetch_and_add(&g->ledger->load, here - g->load_here);
	g->load_here = here;
}

/* At each level above a task that runs: how many CPUs its accounts have, here and everywhere. */
core_fn tree_look_loads(struct group __arena *g in_arena, u64 now_ns)
{
	while (can_loop) {
		if (!g || !g->level)
			break;
		if (g->ledger && g->load_here < ledger_all(g->ledger)) {
			served_look(&g->ledger->served, g->ledger->ran_ns, now_ns);
			served_look(&g->served, g->ran_ns, now_ns);
		}
		g = g->node.parent;
	}
	return 0;
}

/*
 * `nr` tasks of `g` become runnable, or cease to be: both may be negative. With none, the groups above follow what accounts
 * have become in other queues.
 */
core_fn tree_load(struct group __arena *g in_arena, u64 load, u32 nr)
{
	while (can_loop) {
		u64 above;

		if (!g)
			break;
		if (!g->load)
			served_forget(&g->served);
		g->load += load;
		g->nr_loaded += nr;
		group_count_load(g);
		/* What the top has is the classes': the root is below it at times, and what is in it counts there alone. */
		if (!g->level)
			break;
		group_follow_weight(g);
		above = group_load_above(g);
		load = above - g->load_above;
		g->load_above = above;
		g = g->node.parent;
	}
	return 0;
}

/* Gives a node another weight, keeping its group's sums right, and its virtual time. */
static __always_inline void tree_set_weight(struct tree_node __arena *n, u64 weight)
{
	if (n->active && n->parent)
		n->parent->weight_active += weight - n->weight;
	period_count(n->parent, weight - n->weight);
	n->weight = weight;
}

/* The same for a member of a fair group, whose lead stays what it is as CPU time. */
static __always_inline void tree_reweigh(struct tree_node __arena *n, u64 weight)
{
	if (weight == n->weight)
		return;
	fair_keep_lead(n->parent, n, node_weight(n), weight);
	tree_set_weight(n, weight);
}

/* The same for an account, here. */
static __always_inline void tree_set_account_weight(struct group __arena *g, u64 weight)
{
	tree_set_weight(&g->node, weight);
	tree_follow_weights(g);
}

/* What a member of a group with periods was promised is another weight and period from now on, whatever it does. */
core_fn tree_set_promise(struct tree_node __arena *n in_arena, u64 weight, u64 period_vtime,
			 u64 turn_vtime)
{
	struct group __arena *g = n->parent;
	int waits = g && group_has_periods(g) && n->ready.queued;

	if (waits)
		period_remove(g, n);
	if (g && group_has_periods(g))
		period_reweigh(g, n, weight);
	tree_set_weight(n, weight);
	n->period_vtime = period_vtime;
	n->turn_vtime = turn_vtime;
	if (waits)
		period_enqueue(g, n);
	return 0;
}

/* Longer than anybody may be ahead. */
#define LEAD_MAX_NS 1000000000

/*
 * An inactive node is about to leave its group: how far it is ahead there, as CPU time; where nobody else is active in its
 * group, and that is further ahead of its own group, so far. It takes that along, up to LEAD_MAX_NS: nobody else would pay
 * for it.
 */
core_fn tree_take_lead_ns(struct tree_node __arena *n in_arena)
{
	struct group __arena *g = n->parent;
	u64 lead_ns = 0, ns;

	while (can_loop) {
		if (!g || group_has_periods(g))
			break;
		ns = fair_lead_ns(g, n);
		if (ns > lead_ns)
			lead_ns = ns;
		/* It is taken along, and is nobody's here any more. */
		if (ns)
			node_set_vtime(n, g->vmin);
		if (g->nr_active > n->active)
			break;
		n = &g->node;
		g = n->parent;
	}
	return lead_ns < LEAD_MAX_NS ? lead_ns : LEAD_MAX_NS;
}

/* Moves an inactive node to another group, with a lead: what it was ahead of the old group, for one. */
static __always_inline void tree_move(struct tree_node __arena *n, struct group __arena *to,
				      u64 lead_ns)
{
	period_count(n->parent, -n->weight);
	period_count(to, n->weight);
	n->parent = to;
	n->vtime = fair_sleepers_vmin(to) + vtime_of_ns(lead_ns, n->weight);
	n->rest_vtime = n->vtime;
	n->ends_vtime = n->vtime + n->period_vtime;
}

/* Whether no waiting member is entitled before `n`, which does not wait, at any level below that of `until`; NULL: at any. */
core_fn tree_is_first(struct tree_node __arena *n in_arena, struct group __arena *until in_arena)
{
	while (can_loop) {
		struct group __arena *g = n->parent;
		struct tree_node __arena *first;

		if (!g)
			return 1;
		first = group_next(g);
		if (first && first != n && group_before(g, first, n, 0))
			return 0;
		if (g == until)
			return 1;
		n = &g->node;
	}
	return 1;
}

/*
 * The part of `average_ns`, and no more than `most_ns`, which is less than 2^31, for the share of a task: all of it if the task,
 * and each account above it, weighs as much as the active members of its group do on average.
 */
core_fn tree_part_ns(const struct tree_node __arena *n in_arena, u64 average_ns, u64 most_ns)
{
	while (can_loop) {
		const struct group __arena *g = n->parent;
		u64 weighed;

		if (!g)
			break;
		weighed = n->weight * g->nr_active;
		if (weighed < g->weight_active)
			average_ns = average_ns * ((weighed << 8) / g->weight_active) >> 8;
		n = &g->node;
	}
	return average_ns < most_ns ? average_ns : most_ns;
}

/* The ancestor of `n`, or `n` itself, that is a member of `g`; NULL if `n` is not below `g`. */
static __always_inline struct tree_node __arena *tree_member_above(struct tree_node __arena *n,
								   struct group __arena *g)
{
	while (can_loop) {
		struct group __arena *parent = n->parent;

		if (parent == g)
			return n;
		if (!parent)
			return NULL;
		n = &parent->node;
	}
	return NULL;
}

/* What a member of `weight` in `g` weighs below the root, or would if it is not `active` there. */
static __always_inline u64 tree_share_if(const struct group __arena *g, u64 weight, int active)
{
	u64 sum;

	while (can_loop) {
		if (!g->level)
			break;
		sum = group_weight_here(g);
		sum += active ? 0 : weight;
		weight = node_weight(&g->node) * weight / (sum ? sum : 1);
		active = g->node.active;
		g = g->node.parent;
	}
	return weight ? weight : 1;
}

#endif
