/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Periods: whose turn it is among the reservations of one class.
 *
 * Problem  By virtual time alone, one who has reserved waits for a slice of each other reservation of its class, however
 *          short its own period is and however long theirs are.
 * Rule     A member's virtual time is divided into periods. Of the waiting members that are not ahead of their rate,
 *          the one whose period ends first runs, or whose next slice does if that ends later; if all are ahead, the
 *          one that is least. "Ahead" is ahead of the group's virtual time, that of a machine which serves all at
 *          once: it advances by CPU time divided by the weight of all members, and is never before all of them. On
 *          several CPUs those members count that are in the place (class.h), and one that runs keeps its CPU while it
 *          is owed half a period (place.h). A member that was behind it when it wakes begins there, and a period with it.
 * Bound    Nobody is ahead of the group by more than quantum / weight. Who is behind has had what its rate makes of a
 *          period when that ends, or the slice that it was in, to within a quantum of the group's (Theorem 1 of 004): it
 *          is behind by its period and quantum / weight at most, by which Lemma 1 of 004 gives way.
 * Source   004 section 2 (RC: periods decide); WF2Q+ (Bennett, Zhang 1997) for the group's virtual time and its two
 *          queues; EEVDF (Stoica, Abdel-Wahab 1995) for the bound.
 * Limits   On several CPUs a member may have a greater part of the weight than one CPU is of theirs. What it cannot use
 *          is not owed to it: while it runs and none of its tasks waits it is behind by what is missing of its rate, and by
 *          RUNS_BEHIND_MAX_NS of its own running, at most. Else it would go before shorter periods for as long as it has
 *          been too large. Beyond a period and BEHIND_MAX_NS nothing is owed, either.
 */
#ifndef CORE_DECIDE_PERIOD_H
#define CORE_DECIDE_PERIOD_H

#include "rc.h"

/* Longer than any quantum: on one CPU nobody is that far behind. */
#define BEHIND_MAX_NS 20000000ULL

/* How far behind a member is, as its own running, that has its rate and runs on one CPU of several. */
#define RUNS_BEHIND_MAX_NS 4000000ULL

/*
 * The virtual time by which a member is to run: the end of its period, or of the slice that it would have now. Else as many
 * as have the same end would each have a slice before it, most of which they are not yet due.
 */
static __always_inline u64 period_deadline(const struct tree_node __arena *n, u64 vtime)
{
	return vtime_max(n->ends_vtime, vtime + n->turn_vtime);
}

static __always_inline int period_is_ahead(const struct group __arena *g, u64 vtime)
{
	return vtime_before(g->vmin, vtime) && g->node.kind != NODE_RC;
}

static __always_inline void period_push(struct group __arena *g, struct tree_node __arena *n,
					u8 is_ahead)
{
	n->is_ahead = is_ahead;
	heap_push(is_ahead ? &g->ahead : &g->ready, &n->ready,
		  is_ahead ? n->vtime : period_deadline(n, n->vtime), 0);
}

static __always_inline void period_remove(struct group __arena *g, struct tree_node __arena *n)
{
	heap_remove(n->is_ahead ? &g->ahead : &g->ready, &n->ready);
}

/* The member that is ahead least is among the ready ones if nobody else is: the group waits as long as one does. */
static __always_inline void period_fill(struct group __arena *g)
{
	struct heap_link __arena *top = g->ahead.top;
	struct tree_node __arena *n;

	if (g->ready.top || !top)
		return;
	n = node_of_ready(top);
	period_remove(g, n);
	period_push(g, n, 0);
}

/* A member begins to wait. */
static __always_inline void period_enqueue(struct group __arena *g, struct tree_node __arena *n)
{
	period_push(g, n, g->ready.top && period_is_ahead(g, n->vtime));
}

/* A waiting member is taken. */
static __always_inline void period_dequeue(struct group __arena *g, struct tree_node __arena *n)
{
	period_remove(g, n);
	period_fill(g);
}

/*
 * One step towards a queue of ready members whose first is the one to run: who is not ahead any more is ready; who is
 * ready and ahead, as nobody else was, is not. Returns 0 when there is nothing to do.
 */
static __always_inline int period_settle(struct group __arena *g)
{
	struct heap_link __arena *ahead = g->ahead.top, *top = g->ready.top;
	struct tree_node __arena *n;

	if (ahead && !period_is_ahead(g, ahead->major)) {
		n = node_of_ready(ahead);
		period_remove(g, n);
		period_push(g, n, 0);
		return 1;
	}
	if (!top)
		return 0;
	n = node_of_ready(top);
	if (!period_is_ahead(g, n->vtime) ||
	    (!top->left && (!ahead || !vtime_before(ahead->major, n->vtime))))
		return 0;
	period_remove(g, n);
	period_push(g, n, 1);
	period_fill(g);
	return 1;
}

core_fn period_order(struct group __arena *g in_arena)
{
	while (can_loop) {
		if (!period_settle(g))
			break;
	}
	return 0;
}

/* `in` begins to wait, and `out`, which waits, is taken. */
static __always_inline void period_exchange(struct group __arena *g, struct tree_node __arena *out,
					    struct tree_node __arena *in)
{
	in->is_ahead = 0;
	if (!g->ahead.top && heap_replace_only(&g->ready, &out->ready, &in->ready,
					       period_deadline(in, in->vtime), 0))
		return;
	period_enqueue(g, in);
	period_dequeue(g, out);
}

/* The first of those that wait, once it is the one that is to run; NULL if nobody does. */
static __always_inline struct tree_node __arena *period_first(struct group __arena *g)
{
	/* With one that waits there is nothing to order. */
	if (g->ready.top && (g->ahead.top || g->ready.top->left))
		period_order(g);
	return group_first(g);
}

/* A member's virtual time has come to the end of its period: the next one begins. */
static __always_inline void period_renew(struct tree_node __arena *n)
{
	if (vtime_before(n->vtime, n->ends_vtime))
		return;
	n->ends_vtime += n->period_vtime;
	if (!vtime_before(n->vtime, n->ends_vtime))
		n->ends_vtime = n->vtime + n->period_vtime;
}

/* A member's virtual time has moved on so far that its period or its turn is another one. */
core_fn period_follow(struct group __arena *g in_arena, struct tree_node __arena *n in_arena)
{
	u64 least = g->vmin - n->period_vtime - vtime_of_ns(BEHIND_MAX_NS, n->weight);

	n->vtime = vtime_max(n->vtime, least);
	period_renew(n);
	if (n->ready.queued) {
		period_remove(g, n);
		period_enqueue(g, n);
	}
	return 0;
}

/* What running for `ns` adds to a member's virtual time. */
static __always_inline u64 period_vtime_of_ns(const struct group __arena *g,
					      const struct tree_node __arena *n, u64 ns)
{
	return vtime_of_ns(ns, g->node.kind == NODE_RC ? rc_weight(g, n) : node_weight(n));
}

/*
 * Whether a member runs before another one that will have had `ns` more. Not inline: Linux 6.18 would follow all of its paths
 * again at each level of a choice, half a million steps of the million that it is willing to take.
 */
core_fn period_before(const struct group __arena *g in_arena,
		      const struct tree_node __arena *n in_arena,
		      const struct tree_node __arena *other in_arena, u64 ns)
{
	u64 other_vtime = other->vtime + (ns ? period_vtime_of_ns(g, other, ns) : 0);
	int is_ahead = period_is_ahead(g, n->vtime);

	if (is_ahead != period_is_ahead(g, other_vtime))
		return !is_ahead;
	if (is_ahead)
		return vtime_before(n->vtime, other_vtime);
	return vtime_before(period_deadline(n, n->vtime), period_deadline(other, other_vtime));
}

/* A member has had `ns` of CPU time. */
static __always_inline void period_charge(struct group __arena *g, struct tree_node __arena *n,
					  u64 ns)
{
	n->vtime += period_vtime_of_ns(g, n, ns);
	if (g->node.kind != NODE_RC) {
		g->vmin += vtime_of_ns(ns, g->weight_here ? g->weight_here : g->weight_all);
		if (g->nr_active == n->active)
			g->vmin = vtime_max(g->vmin, n->vtime);
	}
	if (n->ready.queued || !vtime_before(n->vtime, n->ends_vtime))
		period_follow(g, n);
}

/* A member comes to the group, or goes; `weight` is what the group's members weigh more then. */
static __always_inline void period_count(struct group __arena *g, u64 weight)
{
	if (g && group_has_periods(g))
		g->weight_all += weight;
}

/*
 * A member has another weight: what it is ahead or behind stays what it is as CPU time. Else a reservation that gets four times
 * its rate while it is a slice ahead would wait for four. Its period ends when it would have. By the clock (rc.h) nothing
 * depends on weights.
 */
static __always_inline void period_reweigh(struct group __arena *g, struct tree_node __arena *n,
					   u64 weight)
{
	u64 ahead = n->vtime - g->vmin;

	if (g->node.kind == NODE_RC || !weight || !n->weight)
		return;
	if (vtime_before(g->vmin, n->vtime))
		n->vtime = g->vmin + vtime_of_ns(vtime_to_ns(ahead, n->weight), weight);
	else
		n->vtime = g->vmin - vtime_of_ns(vtime_to_ns(-ahead, n->weight), weight);
	period_renew(n);
}

/* A member becomes runnable: what it did not use is not saved up. */
static __always_inline void period_wake(struct group __arena *g, struct tree_node __arena *n,
					u64 now_ns)
{
	if (g->node.kind == NODE_RC)
		g->vmin = rc_vtime(now_ns);
	if (vtime_before(n->vtime, g->vmin)) {
		n->vtime = g->vmin;
		n->ends_vtime = n->vtime + n->period_vtime;
	}
	n->rest_vtime = n->vtime - rc_vtime(now_ns);
	period_renew(n);
}

/* What a member was promised by now, as a virtual time, since it last had more or became runnable. */
static __always_inline u64 period_promised(const struct tree_node __arena *n, u64 now_ns)
{
	return n->rest_vtime + rc_vtime(now_ns);
}

/* Whether it has had less, by half a period: in a full class everybody is behind by less now and then. */
static __always_inline int period_is_owed(const struct tree_node __arena *n, u64 now_ns)
{
	return vtime_before(n->vtime + n->period_vtime / 2, period_promised(n, now_ns));
}

/*
 * A task of a member runs, `now_ns` is when it was charged last. If none of its tasks waits, it has had all that it could use since:
 * what it is behind the group it is not owed, but for what is missing of its rate since it last had more than that.
 */
core_fn period_keep_up(struct tree_node __arena *n in_arena, u64 now_ns)
{
	const struct group __arena *g = n->parent;
	u64 promised = period_promised(n, now_ns), least, more;

	if (vtime_before(promised, n->vtime)) {
		n->rest_vtime += n->vtime - promised;
		promised = n->vtime;
	}
	least = g->vmin - vtime_of_ns(RUNS_BEHIND_MAX_NS, n->weight) - (promised - n->vtime);
	if (n->ready.queued || !vtime_before(n->vtime, least))
		return 0;
	more = least - n->vtime;
	n->rest_vtime += more;
	n->vtime += more;
	period_renew(n);
	return 0;
}

#endif
