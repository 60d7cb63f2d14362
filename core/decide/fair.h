/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Fair: the member with the smallest virtual time runs next.
 *
 * Problem  Members with weights must each receive their part, whoever comes and goes.
 * Rule     Running adds `ns` / weight to a member's virtual time. A member's lead is its virtual time less the group's
 *          minimum, that of the waiting members. A member that wakes has its own virtual time, or the minimum if that is
 *          later: its lead waits for it, and what it did not use is not saved up. But what it was behind the others when
 *          it went to sleep it is behind again: short pauses cost nothing. That is LAG_MAX_NS at most, and what domains' seats
 *          may be ahead of it. One that begins to wait is behind the minimum by as much at most, an account or a domain's
 *          seat by LAG_MAX_NS for each of its active members: a group that had fewer runnable tasks than its share has CPUs
 *          earns no credit for what it could not use. On several CPUs an account is compared with the first of those that
 *          wait there, not with a minimum that it holds back itself.
 *          Nor is one ahead for what it had while nobody waited (place.h); beside a busy CPU, where members may yet run in turns,
 *          it is, but for no longer than a member may be behind. A sleeper that is ahead repays in such time, too, as on one CPU,
 *          where it moves the minimum: as much as all active members have of it on average. An account on several CPUs is compared
 *          with what those below it that run are about to have: they are charged when their CPUs choose.
 * Bound    For runnable i, j of one group, on one CPU: vtime_i - vtime_j <= quantum / weight_i, where quantum is the longest
 *          time for which i runs before it is compared again, and more by what j was owed when it went to sleep, until it
 *          has had that. No task is owed more than (LAG_MAX_NS + the seats' lead) / weight, and a leap of the minimum (fair_leap).
 * Source   000 section 2.3.3 (borrowing); 001 (hierarchical stride); 004 Lemma 1; surplus fair scheduling for what cannot be
 *          used.
 * Limits   On several CPUs the minimum is that of the waiting members and the one chosen last; the bound grows by one
 *          quantum for each further CPU, and by one for members that go on where they have run (hot.h).
 *          Behind a domain's seat, or one that weighs far less, what an account could not use is credit of LEAP_MAX_NS at most.
 */
#ifndef CORE_DECIDE_FAIR_H
#define CORE_DECIDE_FAIR_H

#include "../domain.h"

/*
 * How far behind a member may be that begins to wait: what it may have missed while it ran for a slice, and no more. An account
 * misses as much for each of its members: several CPUs may serve them at a time. A seat has what its members are owed.
 */
#define LAG_MAX_NS 4000000ULL

/*
 * The minimum leaps where members wait that began together: it stands for a round of them, then is a slice of theirs further,
 * which is many slices of a task that weighs more. That one has used its CPU meanwhile, as all its lag were used up: half
 * LAG_MAX_NS of a member that weighs as much as all do on average is how far it may be behind besides.
 */
static __always_inline u64 fair_leap(const struct group __arena *g,
				     const struct tree_node __arena *n)
{
	if (n->kind != NODE_TASK || g->nr_active < 2)
		return 0;
	return vtime_of_ns(LAG_MAX_NS / 2, g->weight_active / g->nr_active);
}

static __always_inline u64 fair_lag_max(const struct group __arena *g,
					const struct tree_node __arena *n)
{
	u32 nr = 1;

	if (n->kind == NODE_SEAT)
		nr = n->nr_seated;
	else if (n->kind >= NODE_FAIR)
		nr = outer_of(n, struct group, node)->nr_active;
	return vtime_of_ns(LAG_MAX_NS * (nr ? nr : 1) + g->seats_ahead_ns, node_weight(n)) +
	       fair_leap(g, n);
}

/*
 * By how much CPU time, for one of `weight`, the first member that waits is ahead of the minimum, or `running` if none waits (NULL:
 * nobody runs). It is where a member that runs elsewhere holds the minimum back (choice.h). A member that changes places neither
 * gains nor owes that. A lighter one is ahead by as much as it has had: to one that weighs more that would be many slices.
 */
static __always_inline u64 fair_held_back_ns(struct group __arena *g,
					     const struct tree_node __arena *running, u64 weight)
{
	const struct tree_node __arena *n = g->node.kind == NODE_FAIR ? group_first(g) : NULL;

	if (!n && running && running->parent == g && g->node.kind == NODE_FAIR)
		n = running;
	if (!n)
		return 0;
	return vtime_to_ns(n->vtime - g->vmin, node_weight(n) < weight ? node_weight(n) : weight);
}

/* So much of its lead the first that waits has from its own turns; one that weighs less than such a part is far ahead after each. */
#define FIRST_LEAD_NS (2 * LAG_MAX_NS)
#define FIRST_LIGHTER_MAX 8

/*
 * An account on several CPUs that has fewer tasks in a queue than its share has CPUs of it holds the minimum back (choice.h) by what
 * it cannot use. That goes to no task of it that comes later: such an account is compared with the first of those that wait, unless
 * that may have been put ahead by due events, for which its domain is to repay.
 */
static __always_inline int fair_meets_first(const struct group __arena *g,
					    const struct tree_node __arena *n,
					    const struct tree_node __arena *first)
{
	if (g->of_one_cpu || n->kind < NODE_FAIR || first->kind == NODE_SEAT ||
	    node_weight(first) < node_weight(n) / FIRST_LIGHTER_MAX)
		return 0;
	return first->kind < NODE_FAIR || !outer_of(first, struct group, node)->nr_seats;
}

/* Of a member that is behind. A function of its own: the kernel's verifier follows each path of it once. */
core_fn fair_bound_lag(struct group __arena *g in_arena, struct tree_node __arena *n in_arena)
{
	const struct tree_node __arena *first = group_first(g);
	u64 weight, held_ns, vtime = g->vmin;

	if (first && fair_meets_first(g, n, first)) {
		weight = node_weight(n);
		held_ns = fair_held_back_ns(g, NULL, weight);
		if (held_ns > FIRST_LEAD_NS)
			vtime += vtime_of_ns(held_ns - FIRST_LEAD_NS, weight);
	}
	n->vtime = vtime_max(n->vtime, vtime - fair_lag_max(g, n));
	return 0;
}

/* What is beyond that could not be used, and is not owed. On one CPU nobody who begins to wait is behind at all. */
static __always_inline void fair_forget_lag(struct group __arena *g, struct tree_node __arena *n)
{
	struct tree_node __arena *first;

	if (vtime_before(n->vtime, g->vmin)) {
		fair_bound_lag(g, n);
		return;
	}
	if (g->of_one_cpu || n->kind < NODE_FAIR)
		return;
	first = group_first(g);
	if (first && vtime_before(n->vtime + vtime_of_ns(LAG_MAX_NS, WEIGHT_ONE), first->vtime))
		fair_bound_lag(g, n);
}

/*
 * A member that runs is ahead, and nobody of its group waits: each has had all that it can use. The minimum follows, but for as
 * much as a member may be behind: one that comes later would else have the CPU for as long as these have run.
 */
static __always_inline void fair_bound_lead(struct group __arena *g,
					    const struct tree_node __arena *n)
{
	g->vmin = vtime_max(g->vmin, n->vtime - fair_lag_max(g, n));
}

/* What those that run below a member are about to have: in an account, or in a domain's seat. */
static __always_inline u64 fair_flight_ns(const struct tree_node __arena *n)
{
	if (n->kind == NODE_SEAT)
		return (u64)outer_of(n, const struct seat, node)->flight << FLIGHT_SHIFT;
	return n->kind < NODE_FAIR ? 0 : outer_of(n, const struct group, node)->in_flight_ns;
}

/* By what a member is compared: its virtual time, and what is in flight. */
static __always_inline u64 fair_key(const struct tree_node __arena *n)
{
	u64 flight_ns = fair_flight_ns(n);

	return flight_ns ? n->vtime + vtime_of_ns(flight_ns, node_weight(n)) : n->vtime;
}

static __always_inline void fair_enqueue(struct group __arena *g, struct tree_node __arena *n)
{
	fair_forget_lag(g, n);
	/* One that has just woken is at its group's minimum, as is one that has run there alone: the former goes first. */
	heap_push(&g->ready, &n->ready, fair_key(n), n->has_run);
}

static __always_inline void fair_dequeue(struct group __arena *g, struct tree_node __arena *n)
{
	heap_remove(&g->ready, &n->ready);
}

/* `in`, which is owed what it is behind, begins to wait, and `out`, which waits, is taken. */
static __always_inline void fair_replace(struct group __arena *g, struct tree_node __arena *out,
					 struct tree_node __arena *in)
{
	if (heap_replace_only(&g->ready, &out->ready, &in->ready, fair_key(in), in->has_run))
		return;
	heap_push(&g->ready, &in->ready, fair_key(in), in->has_run);
	fair_dequeue(g, out);
}

/* The same of any `in`. */
static __always_inline void fair_exchange(struct group __arena *g, struct tree_node __arena *out,
					  struct tree_node __arena *in)
{
	fair_forget_lag(g, in);
	fair_replace(g, out, in);
}

/* A waiting member's virtual time has changed. */
static __always_inline void fair_follow(struct group __arena *g, struct tree_node __arena *n)
{
	heap_move(&g->ready, &n->ready, fair_key(n), n->has_run);
}

/* How far before the minimum the members of a group may be on average, for nice 0: a shortest slice, as it is by default. */
#define MEAN_MAX_NS 500000ULL
#define MEAN_MAX (MEAN_MAX_NS << VTIME_SHIFT)

/*
 * What domains that have borrowed enough wait for. The floor of a group is behind whom nobody of it is: its minimum, or the first
 * of those that wait, if what that was owed when it went to sleep puts it behind; then it is that one who is waited for. The
 * minimum alone does not move for as long as a single member has not had its slice, however much all the others have had:
 * where the members are on average counts, too. Of a group that periods decide in, its own virtual time.
 */
static __always_inline u64 fair_mean(struct group __arena *g)
{
	struct tree_node __arena *first = group_first(g);

	if (first && g->node.kind == NODE_FAIR && vtime_before(first->vtime, g->vmin))
		return first->vtime;
	return g->mean - g->vmin <= MEAN_MAX ? g->mean : g->vmin;
}

/* The members of a group have had `ns` of CPU time. */
static __always_inline void fair_mean_follow(struct group __arena *g, u64 ns)
{
	g->mean = vtime_max(g->mean, g->vmin) + vtime_of_ns(ns, g->weight_active);
	if (g->mean - g->vmin > MEAN_MAX)
		g->mean = g->vmin + MEAN_MAX;
}

/*
 * A member has had `ns` of CPU time. The group's minimum follows where nobody else is active; else the next choice moves
 * it: of the others some may run, with a smaller virtual time, and only the host knows. Where nobody is active any more it
 * follows by that run alone: the next newcomer does not begin behind all of it, and what the member was ahead before stays.
 */
static __always_inline void fair_charge(struct group __arena *g, struct tree_node __arena *n, u64 ns)
{
	u64 run = vtime_of_ns(ns, node_weight(n)), lead;

	if (g->blocked.top && g->weight_active)
		fair_mean_follow(g, ns);
	n->vtime += run;
	if (n->ready.queued)
		fair_follow(g, n);
	if (g->nr_active != n->active)
		return;
	lead = node_vtime(n) - g->vmin;
	if ((s64)lead > 0)
		g->vmin += n->active || lead < run ? lead : run;
}

/* Where one of `weight` wakes that was at `vtime` when it went to sleep, and its others at `rest_vtime`. */
static __always_inline u64 fair_wake_at(const struct group __arena *g, u64 vtime, u64 rest_vtime,
					u64 weight)
{
	u64 lag = rest_vtime - vtime, most = vtime_of_ns(LAG_MAX_NS + g->seats_ahead_ns, weight);

	if ((s64)lag < 0)
		lag = 0;
	return vtime_max(vtime, g->vmin - (lag < most ? lag : most));
}

/* The members of a group have had `ns` of CPU time for which nobody waited: those that sleep ahead repay meanwhile. */
static __always_inline void fair_spare(struct group __arena *g, u64 ns)
{
	u64 weight = group_weight_here(g);

	if (weight)
		g->spare_vtime += vtime_of_ns(ns, weight);
}

/* The minimum by the clock of those that sleep. */
static __always_inline u64 fair_sleepers_vmin(const struct group __arena *g)
{
	return g->vmin + g->spare_vtime;
}

/* A member becomes runnable. */
static __always_inline void fair_wake(struct group __arena *g, struct tree_node __arena *n)
{
	n->vtime = fair_wake_at(g, n->vtime - g->spare_vtime, n->rest_vtime - g->spare_vtime,
				node_weight(n));
	n->rest_vtime = vtime_max(n->vtime, g->vmin);
	n->has_run = 0;
}

/* A member that does not wait goes to sleep, or leaves: where the others of its group are then. */
static __always_inline void fair_rest(struct group __arena *g, struct tree_node __arena *n)
{
	struct tree_node __arena *first = group_first(g);

	n->vtime += g->spare_vtime;
	n->rest_vtime = (first ? first->vtime : g->vmin) + g->spare_vtime;
}

/* By how much CPU time of its own a member is ahead of the group's minimum; 0 if it is not. */
static __always_inline u64 fair_lead_ns(const struct group __arena *g,
					const struct tree_node __arena *n)
{
	return vtime_to_ns(node_vtime(n) - g->vmin, node_weight(n));
}

/* A member of one weight has another one: what it is ahead stays what it is as CPU time. */
static __always_inline void fair_keep_lead(struct group __arena *g, struct tree_node __arena *n,
					   u64 was, u64 weight)
{
	u64 lead = node_vtime(n) - g->vmin;

	if ((s64)lead <= 0)
		return;
	node_set_vtime(n, g->vmin + vtime_of_ns(vtime_to_ns(lead, was), weight));
	if (n->ready.queued)
		fair_follow(g, n);
}

#endif
