/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Giving way: on which of its CPUs a task runs that has all it can use.
 *
 * Problem  A task that is entitled to a whole CPU, of several, stays where it is, and those who are bound to that CPU wait for
 *          ever, beside another one on which somebody has more than they would. Or the other one has nothing to do.
 *          A heavy task runs where others are bound, and a light one of its own place, far ahead of them, has the other CPU.
 * Rule     If nobody else of its place waits, the task gives way to those that wait beside it, once these are behind those that
 *          another of its CPUs serves by more than their slack (clocks.h). That CPU takes it at once. A CPU looks at one other
 *          one each time that it chooses. A gap of long ago shrinks while it is used: it is closed, as any.
 *          Whether others of its place wait or not, it gives way to those beside it, too, if another CPU runs a task of its place,
 *          but not of its account, that is ahead of these by more than a slice of its own.
 * Bound    Those that are bound to one of n CPUs are behind those of another by their slack, and what they miss in n slices; behind
 *          lighter ones of the place with which they share it, by a slice of these.
 * Source   an augmenting path of length two, as in a maximum flow: a task that can go elsewhere does.
 * Limits   Longer paths are not looked for. Members of domains stay where they are.
 *
 * Functions here are called with the shard's lock held, but where they say otherwise.
 */
#ifndef CONSORT_WAY_H
#define CONSORT_WAY_H

#include "clocks.h"
#include "idle.h"

/* Whether a CPU may take the task of a place that is no other CPU's own, and serves another place or has nothing to do. */
static __always_inline bool may_take_over(const struct consort_cpu __arena *other, u32 cpu,
					  u32 place)
{
	if (other->shard != shard_of_place(place) || !may_use(place, cpu))
		return false;
	if (!other->running)
		return is_workless(cpu) && !higher_class_waits(cpu);
	return other->running->place != place;
}

/* Whether a place may be before the one that a CPU serves, as things are now. */
static __always_inline bool may_be_first(const struct consort_cpu __arena *other,
					 const struct place __arena *pl)
{
	const struct task __arena *running = other->running;

	return !running ||
	       !vtime_before(other->clock + clock_slack(place_at(running->place)), place_clock(pl));
}

/*
 * Whether those who wait at `clock` on a CPU, in a place of this `slack`, are behind those that another CPU serves: by more than
 * both course, and that not as something of long ago, which would be shrinking.
 */
static __always_inline bool is_behind_elsewhere(struct consort_cpu __arena *c, u32 cpu, u64 clock,
						u64 slack)
{
	const struct consort_cpu __arena *other = cpu_at(c->elsewhere);
	u64 gap = other->clock - clock;

	if (!other->running)
		return true;
	if ((s64)gap <= (s64)slack)
		return false;
	slack += clock_slack(place_at(other->running->place));
	if (!gap_shrinks(&c->gap_elsewhere, gap, slack))
		return true;
	put_forward(c, cpu, NULL, clock, gap);
	return false;
}

/*
 * Whether another CPU runs a task of the running one's place that is further ahead than those who wait in the place `beside`, by
 * more than a slice of its own: it is that one's CPU that the running task should have. Within an account nothing is known of
 * that: its members stand to each other as its own queue says.
 */
static __always_inline bool runs_one_ahead(const struct consort_cpu __arena *other, u32 cpu,
					   struct task __arena *running,
					   struct place __arena *beside)
{
	struct place __arena *pl = place_at(running->place);
	struct task __arena *t = other->running;
	const struct tree_node __arena *first = group_first(&beside->root);
	const struct tree_node __arena *n;
	u64 behind;

	if (!first || !t || t->place != running->place || in_domain(t) ||
	    !may_use(running->place, cpu))
		return false;
	n = tree_member_above(pays_of(t), &pl->root);
	if (!n || n == tree_member_above(pays_of(running), &pl->root))
		return false;
	behind = place_key(beside, first) + vtime_of_ns(pl->quantum_ns, node_weight(n));
	return vtime_before(behind, place_key(pl, n));
}

/* Whether the running task gives way to those that wait in the place `beside`, for another CPU's. It looks at one at a time. */
static __always_inline bool looks_for_one_ahead(struct consort_cpu __arena *c, u32 cpu,
						struct task __arena *running,
						struct place __arena *beside)
{
	struct shard __arena *s = shard_at(c->shard);
	u32 other = cpu_after(s, c->looks_ahead);

	if (other == cpu)
		other = cpu_after(s, cpu);
	c->looks_ahead = other;
	if (other == cpu || !runs_one_ahead(cpu_at(other), other, running, beside))
		return false;
	c->gives_way_to = other + 1;
	return true;
}

/*
 * Whether the running task gives way to those that wait beside it. Another CPU runs one of its place that is further ahead than
 * they are. Or nobody else of its place waits, it has all that it can use, here or elsewhere, and another CPU that it may use has
 * nothing to do, or serves somebody of another place who is further ahead. If it loses this CPU, be it by its clock, that one is to
 * take it. A CPU looks at one other one at a time.
 */
core_fn gives_way(struct consort_cpu __arena *c in_arena, u32 cpu,
		  struct task __arena *running in_arena)
{
	struct place __arena *own = place_at(running->place), *pl;
	const struct consort_cpu __arena *other = cpu_at(c->elsewhere);
	u32 next;
	u64 clock;

	USES_ARENA();
	c->gives_way_to = 0;
	if (is_own(running->place) || running->stays || own->root.node.parent)
		return 0;
	next = first_of_cpu(c, cpu, NULL, own);
	if (next >= PLACES_OF_CPU)
		return 0;
	pl = place_of_choice(c, cpu, next);
	clock = place_clock(pl);
	if (looks_for_one_ahead(c, cpu, running, pl))
		return 1;
	if (own->root.ready.top)
		return 0;
	if (c->elsewhere != cpu && may_take_over(other, c->elsewhere, running->place)) {
		c->gives_way_to = c->elsewhere + 1;
		if (vtime_before(clock, place_clock(own))) {
			if (may_be_first(other, own))
				return 0;
		} else if (is_behind_elsewhere(c, cpu, clock, clock_slack(pl))) {
			return 1;
		}
		c->gives_way_to = 0;
	}
	next = cpu_after(shard_at(c->shard), c->elsewhere);
	c->elsewhere = next == cpu ? cpu_after(shard_at(c->shard), cpu) : next;
	c->gap_elsewhere = 0;
	return 0;
}

/* A task that has given way waits, and the CPU that is to take it looks for it. Without the lock. */
static inline void way_given(struct consort_cpu __arena *c)
{
	u32 to = c->gives_way_to;

	if (!to)
		return;
	c->gives_way_to = 0;
	kick(to - 1, KICK(PREEMPT));
}

#endif
