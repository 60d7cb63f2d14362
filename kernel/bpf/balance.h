/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Balance: which shard takes a task from which, so that shares are those of the machine.
 *
 * Problem  Equal numbers of tasks are no equal shares: four heavy tasks and four light ones in one cache, eight light ones
 *          in another, and the light ones beside the heavy get nothing. Nor do equal rates exist where five tasks share two
 *          caches of two CPUs.
 * Rule     The virtual times of all shards are one clock, in which it counts, too, what tasks have had while nobody waited:
 *          what a shard's is behind the machine's, its tasks are owed. A shard that is ahead takes a task that waits from one
 *          in which tasks lag by more than BALANCE_LAG_NS and are served no faster, as long as that does not catch up. How
 *          fast that is, speeds.h says, or loads until it is known.
 *          Shards that have a CPU for each of their tasks are never behind.
 *          The clock is that of the shards' roots. Whoever is behind in a nested account is found by how long it waits: a
 *          task that has waited for BALANCE_WAIT_NS goes where nobody has waited for half as long. Tasks that are bound to
 *          some CPUs, and more than these can divide evenly, take turns to be in the fuller own place.
 *          Reserved tasks go where less has been promised, from where nearly all has or some of them wait. Tasks whose
 *          masks keep them from the shards' places go where they are served faster (speeds.h). How a task moves is
 *          migrate.h's.
 * Bound    A task that may run in all shards has its share of the machine but for some BALANCE_LAG_NS.
 * Source   proportional progress (Baruah et al.), in units of caches; distributed weighted round-robin (Li et al. 2009)
 *          bounds lag between queues by moving tasks likewise.
 * Limits   A shard that cannot be helped, as masks bind its tasks, is asked seldom, and its lag forgotten.
 */
#ifndef CONSORT_BALANCE_H
#define CONSORT_BALANCE_H

#include "speeds.h"

/* How often a CPU looks whether its shard is ahead of others. */
#define BALANCE_NS 20000000ULL

/*
 * By how much the tasks of a shard may lag behind those of another one, on the average. With 4 ms shares are closer, but tasks change
 * shards where they can be divided evenly; with 20 to 30 ms generated mixes differ by chance only.
 */
#define BALANCE_LAG_NS 27000000ULL

/* What is not remembered of it. */
#define BALANCE_LAG_MAX_NS (15 * BALANCE_LAG_NS)

/* How long a task waits before it goes where others wait for less. */
#define BALANCE_WAIT_NS 100000000ULL

/* What tasks of a CPU's own place are behind before they take turns. */
#define SWAP_LAG_NS (5 * LAG_MAX_NS)

/* By which part of a shard's CPUs more has been promised than in another one before a reserved task moves. */
#define BALANCE_PROMISED_MORE (WEIGHT_ONE / 8)

/* It may be promised all of the difference but one of so many parts: that much smaller it becomes at least. */
#define BALANCE_PROMISED_PARTS 4

/* A shard's virtual time, with that which its tasks have had while nobody waited for it. */
static inline u64 shard_vtime(const struct shard __arena *s)
{
	return fair_sleepers_vmin(&s->place.root);
}

/* The same by the machine's clock. */
static inline u64 shard_clock(const struct shard __arena *s)
{
	return shard_vtime(s) + s->offset;
}

/* What the tasks of a shard weigh, but for those that are bound to one of its CPUs. */
static inline u64 shard_load(struct shard __arena *s)
{
	u64 load = s->place.root.load;

	for (u32 i = hidden(0); s->nr_in_subsets && i < SUBSETS && can_loop; i = hidden(i + 1))
		load += subset_at(s, i)->place.root.load;
	return load;
}

/* The weight of its average task, as its root sees it. */
static inline u64 mean_weight(const struct shard __arena *s)
{
	return group_weight_here(&s->place.root) / (s->place.nr_runnable ?: 1) ?: 1;
}

/* What a difference of clocks is to the average task of a shard, as CPU time. */
static inline u64 lag_ns(const struct shard __arena *s, u64 vtime)
{
	return vtime_to_ns(vtime, mean_weight(s));
}

/* The machine's clock: that of the shard that is furthest ahead. */
__weak __noinline u64 machine_clock(void)
{
	u64 clock = shard_clock(shard_at(0));

	for (u32 i = 1; i < topology.nr_shards && can_loop; i++)
		clock = vtime_max(clock, shard_clock(shard_at(i)));
	return clock;
}

/*
 * Beside classes: what the tasks without reservations may have of a shard. Where more of them are than in other shards that is more
 * than their capacity of it: their part, by load, of their capacity of the machine. A look without locks.
 */
static inline u64 root_capacity(struct shard __arena *s)
{
	u64 capacity = class_table.flexible, all = 0, cpus = 0, part;

	for (u32 i = hidden(0); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		all += shard_load(shard_at(i));
		cpus += shard_at(i)->nr_cpus;
	}
	part = capacity * cpus / (s->nr_cpus ?: 1) * shard_load(s) / (all ?: 1);
	part = part > capacity ? part : capacity;
	return part < WEIGHT_ONE ? part : WEIGHT_ONE;
}

/* With the shard's lock held. */
static inline void root_follow(struct place __arena *pl, u64 capacity)
{
	if (pl->root.nominal_weight == capacity)
		return;
	pl->root.nominal_weight = capacity;
	if (pl->root.node.parent)
		class_weigh(pl);
}

/*
 * By one of the shard's own CPUs. Where nobody waits in its place, whether masked tasks wait or not, its clock is never behind.
 * Where tasks wait, no more than BALANCE_LAG_MAX_NS of what they are owed is remembered.
 */
core_fn shard_keep_up(struct consort_cpu __arena *c in_arena, struct shard __arena *s in_arena,
		      u64 clock, u64 now_ns)
{
	u64 capacity = class_table.shortest_period_ns ? root_capacity(s) : class_table.flexible;
	u64 most = 0;
	unsigned long flags;

	bpf_local_irq_save(&flags);
	lock_take(&s->lock);
	speeds_look(c, now_ns);
	root_follow(&s->place, capacity);
	if (is_loaded(&s->place, now_ns))
		most = vtime_of_ns(BALANCE_LAG_MAX_NS, mean_weight(s));
	s->offset = vtime_max(shard_clock(s), clock - most) - shard_vtime(s);
	c->kept_up_ns = now_ns;
	lock_release(&s->lock);
	bpf_local_irq_restore(&flags);
	return 0;
}

/* Whether what a place lags by grows still: else it is catching up. */
static inline bool may_give(struct giver __arena *g, u64 lag)
{
	if (lag < g->lag) {
		g->lag = lag;
		return false;
	}
	return true;
}

/*
 * For how long the task of a place that has waited for longest has waited there, and not elsewhere before: else it would go to and
 * fro. A look without the lock.
 */
static inline u64 longest_wait_ns(const struct place __arena *pl, u64 now_ns)
{
	const struct waiter __arena *w =
		*(struct waiter __arena *const volatile __arena *)&pl->waiters.first;
	s64 ns = w ? now_ns - w->came_ns : 0;

	return ns > 0 ? ns : 0;
}

/* Whether a task waits there for so long that it should try its luck elsewhere. */
static inline bool gives_oldest(struct shard __arena *from, const struct shard __arena *to,
				u64 now_ns)
{
	u64 wait_ns = longest_wait_ns(&from->place, now_ns);

	return wait_ns >= BALANCE_WAIT_NS && longest_wait_ns(&to->place, now_ns) < wait_ns / 2;
}

/* Whether a shard's tasks are served no faster than those of a CPU of another one: else they catch up as it is. */
static inline bool is_slower(struct shard __arena *s, const struct consort_cpu __arena *to,
			     u64 now_ns)
{
	struct shard __arena *other = shard_at(to->shard);

	if (is_promised_away(s) != is_promised_away(other))
		return is_promised_away(s);
	if (!to->pick.load || !s->giver.looks)
		return shard_load(s) * other->nr_cpus >= shard_load(other) * s->nr_cpus;
	return s->giver.served * to->pick.load <= to->pick.served * s->giver.load;
}

/* Whether tasks of a shard lag so far behind those of `to` that one should move. */
static inline bool shard_should_give(struct shard __arena *from,
				     const struct consort_cpu __arena *to, u64 clock, u64 now_ns)
{
	s64 lead = shard_clock(shard_at(to->shard)) - shard_clock(from);

	return lead > 0 && lag_ns(from, lead) > BALANCE_LAG_NS && is_slower(from, to, now_ns) &&
	       may_give(&from->giver, clock - shard_clock(from));
}

/* What a place is behind its shard's, as CPU time of a task there; what it cannot keep up with is forgotten. */
static inline s64 side_lag_ns(const struct place __arena *side, const struct shard __arena *s)
{
	const struct group __arena *own = &side->root;
	s64 lag = place_clock(&s->place) - place_clock(side);

	return lag <= 0 ? 0 : vtime_to_ns(lag, own->weight_active / (own->nr_active ?: 1) ?: 1);
}

static inline s64 own_lag_ns(const struct consort_cpu __arena *c)
{
	return side_lag_ns(&c->place, shard_at(c->shard));
}

/* Whether tasks that are bound to some CPUs, one of which is this one, have less here than their part. */
static inline bool cpu_should_give(struct consort_cpu __arena *from, u64 now_ns)
{
	return is_loaded(&from->place, now_ns) && own_lag_ns(from) > LAG_MAX_NS;
}

/*
 * Whether tasks wait in a CPU's own place, though in the shard of this one, where nobody is bound to it, there are more CPUs than
 * tasks: whoever runs here may go to another one of them.
 */
static inline bool cpu_has_room(const struct consort_cpu __arena *from,
				const struct consort_cpu __arena *to, u64 now_ns)
{
	const struct shard __arena *s = shard_at(to->shard);

	return from->shard != to->shard && !to->place.nr_runnable && s->nr_runnable < s->nr_cpus &&
	       is_loaded(&from->place, now_ns);
}

/* Whether so much more is promised in the own place of `from` than in that of `to` that a reserved task should move. */
static inline bool cpu_should_give_promised(const struct consort_cpu __arena *from,
					    struct consort_cpu __arena *to, u64 now_ns)
{
	if (now_ns < to->promises_at_ns || from->own_promised <= PROMISED_AWAY ||
	    from->own_promised < to->own_promised + BALANCE_PROMISED_MORE)
		return false;
	to->pick.promised_most =
		load_of_weight((from->own_promised - to->own_promised) / BALANCE_PROMISED_PARTS *
			       (BALANCE_PROMISED_PARTS - 1));
	return true;
}

/* What is left of a CPU for tasks in its own place that have reserved nothing. */
static inline u64 cpu_left(const struct consort_cpu __arena *c)
{
	return class_table.shortest_period_ns ? left_of(1, c->own_promised) : WEIGHT_ONE;
}

/*
 * Whether tasks in a CPU's own place, which has all of that CPU that it may have, are served slower than those in this one's,
 * by what half a task weighs: they take turns to be in the faster one, as three cannot be divided over two CPUs. Beside
 * classes clocks do not say that they lag.
 */
static inline bool cpu_should_swap(const struct consort_cpu __arena *from,
				   const struct consort_cpu __arena *to, u64 now_ns)
{
	u64 load = from->place.root.load, half = load / 2 / (from->place.nr_runnable ?: 1);

	return now_ns >= from->swap_at_ns && now_ns >= to->swap_at_ns && to->place.nr_runnable &&
	       load * cpu_left(to) > (to->place.root.load + half) * cpu_left(from) &&
	       is_loaded(&from->place, now_ns) &&
	       (class_table.shortest_period_ns || own_lag_ns(from) > SWAP_LAG_NS);
}

/* Another shard's, for one that is ahead; or that of one of which a CPU idles beside work. */
core_fn pick_shard(struct consort_cpu __arena *c in_arena, u32 stuck, u64 clock, u64 now_ns)
{
	for (u32 i = hidden(0); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		struct shard __arena *from = shard_at(i), *own = shard_at(c->shard);
		bool oldest = gives_oldest(from, own, now_ns);

		if (i == c->shard || (i != stuck && !may_look(c, place_of_shard(i), false, now_ns)) ||
		    (i != stuck && !oldest && !shard_should_give(from, c, clock, now_ns)))
			continue;
		c->pick.place = place_of_shard(i);
		c->pick.giver = &from->giver;
		c->pick.oldest = oldest;
		c->pick.lag = clock - shard_clock(from);
		break;
	}
	return 0;
}

/*
 * That of the shard in which most has been promised, so much that it may not be kept, or though reserved tasks wait there, for one
 * in which less has: a reserved task that leaves the difference smaller by a quarter or more.
 */
core_fn pick_promised(struct consort_cpu __arena *c in_arena, u64 now_ns)
{
	struct shard __arena *own = shard_at(c->shard);
	u64 here = promised(own), most = here;

	if (now_ns < c->promises_at_ns)
		return 0;
	for (u32 i = hidden(0); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		struct shard __arena *from = shard_at(i);
		u64 there = promised(from);
		bool is_tight = is_promised_away(from) && there > here + BALANCE_PROMISED_MORE;

		if (i == c->shard || there <= most || (!is_tight && !first_class(&from->place)))
			continue;
		most = there;
		c->pick.place = place_of_shard(i);
		c->pick.promised_most =
			load_of_weight((there - here) * (own->nr_cpus ?: 1) /
				       BALANCE_PROMISED_PARTS * (BALANCE_PROMISED_PARTS - 1));
	}
	return 0;
}

/*
 * Another CPU's own: for a CPU whose own has less, whose turn it is then; or for one whose shard is not behind that one's, which
 * its own lags behind.
 */
core_fn pick_cpu(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	u64 clock = shard_clock(shard_at(c->shard));
	bool is_full = own_lag_ns(c) > LAG_MAX_NS;

	for (u32 i = hidden(0); i < LOOK_CPUS && i < topology.nr_cpus && can_loop;
	     i = hidden(i + 1)) {
		u32 other = c->balance_from++ % topology.nr_cpus;
		struct consort_cpu __arena *from = cpu_at(other);

		if (other == cpu)
			continue;
		if (cpu_should_give_promised(from, c, now_ns)) {
			/* Nothing is noted of the giver. */
		} else if (cpu_should_swap(from, c, now_ns)) {
			c->pick.swaps = from;
			c->pick.oldest = 1;
		} else if (may_look(c, place_of_cpu(other), false, now_ns) &&
			   (cpu_has_room(from, c, now_ns) ||
			    (!is_full && cpu_should_give(from, now_ns) &&
			     !vtime_before(clock, shard_clock(shard_at(from->shard)))))) {
			c->pick.giver = &from->giver;
		} else {
			continue;
		}
		c->pick.place = place_of_cpu(other);
		break;
	}
	return 0;
}

core_fn balance(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	USES_ARENA();
	struct shard __arena *own = shard_at(c->shard);
	struct task_struct *p;
	u64 clock;
	u32 stuck;

	if (now_ns < c->balance_at_ns)
		return 0;
	c->balance_at_ns = now_ns + BALANCE_NS;
	stuck = attend_others(cpu, now_ns);
	clock = machine_clock();
	shard_keep_up(c, own, clock, now_ns);
	pick_none(c);
	speed_here(c, cpu);
	pick_promised(c, now_ns);
	/* Whose own place has more than it can run does not take more of others. */
	if (c->pick.place == PLACE_NONE && (own_lag_ns(c) <= LAG_MAX_NS || stuck != SHARDS_MAX))
		pick_shard(c, stuck, clock, now_ns);
	if (c->pick.place == PLACE_NONE)
		pick_slower(c, now_ns);
	if (c->pick.place == PLACE_NONE)
		pick_cpu(c, cpu, now_ns);
	if (c->pick.place == PLACE_NONE)
		return 0;
	p = pull(c, cpu, now_ns);
	/* Who is promised too much to move must not keep others from it for good. */
	if (c->pick.promised_most && !p)
		c->promises_at_ns = now_ns + MIGRATE_PAUSE_MAX_NS;
	c->pick.promised_most = 0;
	if (!p)
		return 0;
	/* There may be more. */
	c->balance_at_ns = now_ns + MIGRATE_PAUSE_NS;
	put_stolen(c, cpu, p, false, now_ns);
	bpf_task_release(p);
	return 0;
}

#endif
