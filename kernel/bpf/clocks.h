/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Clocks: how the places among which a CPU chooses stand to each other.
 *
 * Problem  Each place has virtual times of its own. One whose tasks may run on some CPUs only falls behind for as long as these
 *          are full. It is not owed that: when there is room again it would have the CPUs alone until it had caught up. But
 *          places that are full together have their parts of these CPUs by how they stand to each other: were each put
 *          forward on its own, to some limit, all would be at that limit, and one of them would starve.
 * Rule     A place's clock is its root's virtual time and the place's offset. A CPU serves the place whose clock is behind
 *          (choose.h). A gap between two clocks that grows is let be: the place behind has the CPU already. A gap that shrinks is
 *          being used: when it has shrunk by more than both clocks' slack, all places behind it are put forward by it, as one.
 *          A place whose tasks may run nowhere else is ahead by what it has had: such a gap is not closed.
 *          A place that nobody is in begins where its CPU is. One in which nobody waits is not owed what others have.
 * Bound    What a place has been behind while its CPUs were full costs a task of another one the slack of both places, as CPU time
 *          of its own, once: for each place a slice, LAG_MAX_NS, and what its domains may lead by.
 * Source   serving whoever is furthest behind is max-min fair where masks say who may be served where (Yap et al. 2013, miDRR).
 *          There nothing is remembered but since when a flow has been served; the rule by which memory ends here is ours.
 * Limits   A gap that shrinks for another reason, as places come and go, is closed as well: that costs the places behind it
 *          the slack once. Each CPU looks at its own places: how those of CPUs that have none in common stand to each other is
 *          not looked at, but for way.h.
 *
 * Functions here are called with the shard's lock held.
 */
#ifndef CONSORT_CLOCKS_H
#define CONSORT_CLOCKS_H

#include "subsets.h"

/* Further apart than that two clocks could soon not be compared. */
#define GAP_MAX (1ULL << 60)

static __always_inline u64 place_clock(const struct place __arena *pl)
{
	return pl->root.vmin + pl->offset;
}

/* By what a member of a place's root is compared with those of other places': see choose.h and way.h. */
static __always_inline u64 place_key(const struct place __arena *pl,
				     const struct tree_node __arena *n)
{
	return fair_key(n) + pl->offset;
}

/* How far a place's clock may be from its course: it goes by slices of its members. */
static __always_inline u64 clock_slack(const struct place __arena *pl)
{
	u64 ns = LAG_MAX_NS + pl->quantum_ns;

	if (place_has_domains(pl))
		ns += pl->window_ns + pl->quantum_ns * pl->nr_runnable;
	return vtime_of_ns(ns, pl->root.weight_active / (pl->root.nr_active ?: 1));
}

/* Of a CPU's places the i-th: those beside its shard's, then that. NULL: not this CPU's. */
static __always_inline struct place __arena *place_of_choice(struct consort_cpu __arena *c, u32 cpu,
							     u32 i)
{
	return i > SUBSETS ? &shard_at(c->shard)->place : beside(c, cpu, i);
}

/* The same if somebody there wants the CPU, and clocks decide. */
static __always_inline struct place __arena *
place_competing(struct consort_cpu __arena *c, u32 cpu, u32 i, const struct task __arena *running)
{
	struct place __arena *pl = place_of_choice(c, cpu, i);

	if (!pl || pl->root.node.parent)
		return NULL;
	return pl->root.ready.top || (running && place_at(running->place) == pl) ? pl : NULL;
}

/* The first of a CPU's places, but for one, by their clocks; PLACES_OF_CPU: nobody competes. */
core_fn first_of_cpu(struct consort_cpu __arena *c in_arena, u32 cpu,
		     struct task __arena *running in_arena, struct place __arena *but in_arena)
{
	u32 first = PLACES_OF_CPU;
	u64 clock = 0;

	USES_ARENA();
	for (u32 i = hidden(0); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_competing(c, cpu, i, running);

		if (!pl || pl == but ||
		    (first < PLACES_OF_CPU && !vtime_before(place_clock(pl), clock)))
			continue;
		clock = place_clock(pl);
		first = i;
	}
	return first;
}

/*
 * Whether a CPU's place `first` may be behind its place `i` because its CPUs are full. It is not where tasks of `i` may run on
 * no other CPUs than its own: then `i` is ahead, by what it has had, and waits until `first` has had as much.
 */
static __always_inline bool may_be_full(struct consort_cpu __arena *c, u32 first, u32 i)
{
	struct shard __arena *s = shard_at(c->shard);

	if (!i || first > SUBSETS)
		return false;
	if (!first || i > SUBSETS)
		return true;
	return has_more_than(s, i - 1, first - 1);
}

/* Whether the gap to one of the CPU's places has shrunk. It is known from how far it was at most. */
static __always_inline bool gap_shrinks(u64 __arena *most, u64 gap, u64 slack)
{
	if (gap > *most)
		*most = gap;
	return *most - gap > slack || gap > GAP_MAX;
}

/* The places of a CPU that compete with that of the clock, and are not ahead of it but by their course: they go on together. */
core_fn put_forward(struct consort_cpu __arena *c in_arena, u32 cpu,
		    struct task __arena *running in_arena, u64 clock, u64 by)
{
	USES_ARENA();
	for (u32 i = hidden(0); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_competing(c, cpu, i, running);

		c->gaps[i % PLACES_OF_CPU] = 0;
		if (pl && place_clock(pl) - clock <= clock_slack(pl))
			pl->offset += by;
	}
	return 0;
}

/* Where the place that was far behind all others is gone, or has all that it can use elsewhere, gaps begin anew. */
static __always_inline void look_at_first(struct consort_cpu __arena *c, u32 first, u64 clock,
					  u64 slack)
{
	bool jumps = first != c->first && (s64)(clock - c->first_clock) > (s64)slack;

	for (u32 i = hidden(0); jumps && i < PLACES_OF_CPU && can_loop; i = hidden(i + 1))
		c->gaps[i % PLACES_OF_CPU] = 0;
	c->first = first;
	c->first_clock = clock;
}

/* Looks at the gaps between the clocks of a CPU's places, and closes the first if one shrinks. */
core_fn clocks_compare(struct consort_cpu __arena *c in_arena, u32 cpu,
		       struct task __arena *running in_arena)
{
	u32 first = first_of_cpu(c, cpu, running, NULL);
	u64 clock, slack, nearest = NEVER_NS;
	bool shrinks = false;

	USES_ARENA();
	if (first >= PLACES_OF_CPU)
		return 0;
	clock = place_clock(place_of_choice(c, cpu, first));
	slack = clock_slack(place_of_choice(c, cpu, first));
	look_at_first(c, first, clock, slack);
	for (u32 i = hidden(0); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_competing(c, cpu, i, running);
		u64 gap = pl ? place_clock(pl) - clock : 0, own = pl ? clock_slack(pl) : 0;

		if (gap <= own) {
			c->gaps[i % PLACES_OF_CPU] = 0;
			continue;
		}
		if (may_be_full(c, first, i))
			shrinks |= gap_shrinks(&c->gaps[i % PLACES_OF_CPU], gap, slack + own);
		if (gap < nearest)
			nearest = gap;
	}
	if (shrinks)
		put_forward(c, cpu, running, clock, nearest);
	return 0;
}

/* How far behind a place may be while nobody waits there: by what its tasks, all of which run, may have missed before (fair.h). */
static __always_inline u64 rest_lag(const struct place __arena *pl)
{
	u64 weight = pl->root.weight_active;

	return weight ? vtime_of_ns(LAG_MAX_NS * pl->nr_runnable, weight) : 0;
}

/*
 * A CPU serves a place beside its shard's. Nobody of its others in which no task waits wants it: what they are behind that one
 * they are not owed. While the shard's place is empty its virtual time is that of its subsets, for the other shards to compare
 * theirs with.
 */
core_fn clocks_rest(struct consort_cpu __arena *c in_arena, u32 cpu,
		    struct task __arena *running in_arena, struct place __arena *served in_arena)
{
	struct place __arena *shared = &shard_at(c->shard)->place;

	USES_ARENA();
	for (u32 i = hidden(1); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_of_choice(c, cpu, i);
		s64 lag;

		if (!pl || pl == served || pl->root.node.parent ||
		    place_competing(c, cpu, i, running))
			continue;
		lag = place_clock(served) - place_clock(pl) - rest_lag(pl);
		if (lag <= 0)
			continue;
		pl->root.vmin += lag;
		if (pl == shared && (pl->root.nr_active || served == &c->place))
			shard_at(c->shard)->offset -= lag;
	}
	return 0;
}

/* The CPU has served a place by its clock, which stands while it has nothing but classes. */
static __always_inline void clock_serves(struct consort_cpu __arena *c,
					 const struct place __arena *pl)
{
	if (pl->root.nr_active || !pl->top.nr_active)
		c->clock = place_clock(pl);
}

#endif
