/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Balance: which CPU takes a task from which place, so that shares are those of the machine.
 *
 * Problem  Equal numbers of tasks are no equal shares: four heavy tasks and four light ones in one cache, eight light ones
 *          in another, and the light ones beside the heavy get nothing. Nor do equal rates exist where five tasks share two
 *          caches of two CPUs. And masks let some tasks go to some CPUs of another cache only.
 * Rule     The clocks of all places are on one time line, the machine's: what a place is behind, its tasks are owed. A CPU
 *          looks at some places from which it does not choose, in turns. It takes a task from one that is behind the place in
 *          which that task would wait here, by more than BALANCE_SLICES slices of the task's own CPU time, and in which tasks are served slower.
 *          So tasks that cannot be divided evenly take turns to be where less is had, and masks need no rule of their own.
 *          Shards that have a CPU for each of their tasks are never behind.
 *          Whoever is behind in a nested account is found by how long it waits: a task that has waited for BALANCE_WAIT_NS
 *          goes where nobody has waited for half as long.
 * Bound    A task has its share of the machine, as far as its mask allows, but for some slices.
 * Source   proportional progress (Baruah et al.), in units of caches; distributed weighted round-robin (Li et al. 2009)
 *          bounds lag between queues by moving tasks likewise.
 * Limits   A place that cannot be helped, as masks bind its tasks, is asked seldom, and a shard's lag forgotten.
 */
#ifndef CONSORT_BALANCE_H
#define CONSORT_BALANCE_H

#include "shards.h"

/* How often a CPU looks whether places are behind its own. */
#define BALANCE_NS 20000000ULL

/* At how many it looks. */
#define BALANCE_LOOKS 16

/* How long a place is left alone that has given a task. */
#define BALANCE_PAUSE_NS 2000000ULL

/* How long one from which nothing could be taken is left alone, at most. */
#define BALANCE_PAUSE_MAX_NS 20000000ULL

/* Whether tasks have to wait there: one does, or did a moment ago. */
static inline bool is_loaded(const struct place __arena *pl, u64 now_ns)
{
	return pl->waiters.first || (s64)(now_ns - pl->waited_at_ns) < (s64)BALANCE_NS;
}

/*
 * How fast virtual time goes for the task of a place that has this CPU alone: what it weighs below the root. Its account's goes
 * as fast as that of all its tasks that run.
 */
static inline u64 weight_alone(const struct consort_cpu __arena *c, const struct place __arena *pl)
{
	struct task __arena *running = c->running;

	if (!running || place_at(running->place) != pl || !pays_of(running)->active)
		return 0;
	return weight_of_task_below(running);
}

/*
 * How far a place may be from its course on the line: its clock goes by slices of its members, and whoever is furthest ahead
 * says so every BALANCE_NS. As CPU time of the task that has waited for longest.
 */
static inline u64 line_slack(const struct place __arena *pl)
{
	struct waiter __arena *w = pl->waiters.first;
	struct task __arena *t;

	if (!w)
		return clock_slack(pl);
	t = task_of_node(&outer_of(w, struct member, waiter)->node);
	return clock_slack(pl) + vtime_of_ns(BALANCE_NS + LAG_MAX_NS, weight_of_task_below(t));
}

/* How fast a loaded place has gone on the line, on the average of what was known and what was seen since. */
static inline void look_at_speed(struct place __arena *pl, u64 at, u64 gone_ns)
{
	u64 went = at - pl->last_line, speed;

	if (went > SPEED_WENT_MAX)
		went = 0;
	speed = (went << SPEED_SHIFT) / gone_ns;
	pl->speed = pl->speed == SPEED_ALONE ? speed : (pl->speed + speed) / 2;
}

/*
 * A place from which a CPU chooses. Where nobody has to wait its virtual time stands: on the line it goes on as that of tasks
 * that have a CPU each, and is never behind. Where tasks wait, what they are owed is remembered for as long as it grows: as the
 * gaps between the places of a CPU (clocks.h), it is forgotten once it is being used. With the shard's lock held.
 */
core_fn place_keep_up(struct consort_cpu __arena *c in_arena, struct place __arena *pl in_arena,
		      u64 now_ns)
{
	u64 gone_ns = now_ns - pl->kept_up_ns, line = machine_line, at = place_line(pl), weight;

	if (gone_ns < BALANCE_NS)
		return 0;
	look_at_speed(pl, at, gone_ns);
	if (!is_loaded(pl, now_ns)) {
		pl->speed = SPEED_ALONE;
		if (gone_ns > BALANCE_NS)
			gone_ns = BALANCE_NS;
		weight = weight_alone(c, pl);
		at = vtime_max(at + (weight ? vtime_of_ns(gone_ns, weight) : 0), line);
	} else if (vtime_before(at, line)) {
		if (gap_shrinks(&pl->lagged, line - at, line_slack(pl)))
			at = line;
	}
	if (!vtime_before(at, line))
		pl->lagged = 0;
	pl->line_offset = at - pl->root.vmin;
	pl->last_line = at;
	pl->kept_up_ns = now_ns;
	if (vtime_before(line, at))
		machine_line = at;
	return 0;
}

/* All places from which a CPU chooses. */
static inline void keep_up(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	struct shard __arena *s = shard_at(c->shard);
	unsigned long flags;

	bpf_local_irq_save(&flags);
	lock_take(&s->lock);
	for (u32 i = hidden(0); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_of_choice(c, cpu, i);

		if (pl && pl->root.nr_active)
			place_keep_up(c, pl, now_ns);
	}
	lock_release(&s->lock);
	bpf_local_irq_restore(&flags);
}

/* No place to take a task from. */
static inline void pick_none(struct consort_cpu __arena *c)
{
	c->pick.place = PLACE_NONE;
	c->pick.rule = TAKE_FIRST;
}

/* Whether the first that waits in a place may run on a CPU: a look without the lock. */
static inline bool first_may_come(u32 place, u32 cpu)
{
	struct task_struct *p = first_in(place);
	bool may;

	if (!p)
		return false;
	may = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
	bpf_task_release(p);
	return may;
}

/* Picks a place if tasks there lag, or wait for long, and one of them may come here. */
core_fn pick_if_behind(struct consort_cpu __arena *c in_arena, u32 cpu, u32 place, u64 now_ns)
{
	struct giver __arena *g = giver_of(place);
	u64 wait_ns = longest_wait_ns(place_at(place), now_ns);

	USES_ARENA();
	if (!wait_ns || now_ns < g->at_ns)
		return 0;
	if (vtime_before(place_line(place_at(place)), line_of_cpu(c)))
		c->pick.rule = TAKE_LAGGING;
	else if (wait_ns >= BALANCE_WAIT_NS)
		c->pick.rule = TAKE_OLDEST;
	else
		return 0;
	if (!first_may_come(place, cpu))
		return 0;
	c->pick.place = place;
	return 0;
}

/* Other shards' places all, of those of subsets and single CPUs some. */
core_fn pick(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	u32 nr = nr_places() - topology.nr_shards;

	for (u32 i = hidden(1); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		pick_if_behind(c, cpu, (c->shard + i) % topology.nr_shards, now_ns);
		if (c->pick.place != PLACE_NONE)
			return 0;
	}
	for (u32 i = hidden(0); i < BALANCE_LOOKS && i < nr && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(topology.nr_shards + c->balance_from++ % nr);

		/* Of its own shard's subsets a CPU has those that its tasks may be in. */
		if (is_own(place) ? place == place_of_cpu(cpu) : shard_of_place(place) == c->shard)
			continue;
		pick_if_behind(c, cpu, place, now_ns);
		if (c->pick.place != PLACE_NONE)
			break;
	}
	return 0;
}

/* What came of a CPU's pick. What is noted of the giver several CPUs may write at a time: it is a hint. */
core_fn pick_end(struct consort_cpu __arena *c in_arena, bool took, u64 now_ns)
{
	struct giver __arena *g = giver_of(c->pick.place);

	USES_ARENA();
	g->pause_ns = took ? BALANCE_PAUSE_NS : g->pause_ns * 2;
	if (g->pause_ns < BALANCE_PAUSE_NS)
		g->pause_ns = BALANCE_PAUSE_NS;
	if (g->pause_ns > BALANCE_PAUSE_MAX_NS)
		g->pause_ns = BALANCE_PAUSE_MAX_NS;
	g->at_ns = now_ns + g->pause_ns;
	return 0;
}

/* Takes a task from the place picked; where nobody of a stuck shard's place can come, one of a subset's may. */
static inline struct task_struct *pull(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	u32 place = c->pick.place;
	struct task_struct *p = NULL;

	for (u32 i = hidden(0); !p && i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		if (i && (c->pick.rule != TAKE_FIRST || !shard_at(place)->nr_in_subsets))
			break;
		p = steal_from(i ? place_of_subset(place, i - 1) : place, cpu, c->pick.rule,
			       now_ns);
	}
	pick_end(c, p, now_ns);
	return p;
}

core_fn balance(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	USES_ARENA();
	struct task_struct *p;
	u32 stuck;

	if (now_ns < c->balance_at_ns)
		return 0;
	c->balance_at_ns = now_ns + BALANCE_NS;
	stuck = attend_others(cpu, now_ns);
	keep_up(c, cpu, now_ns);
	pick_none(c);
	if (stuck != SHARDS_MAX && stuck != c->shard)
		c->pick.place = place_of_shard(stuck);
	else
		pick(c, cpu, now_ns);
	if (c->pick.place == PLACE_NONE)
		return 0;
	p = pull(c, cpu, now_ns);
	if (!p)
		return 0;
	/* There may be more. */
	c->balance_at_ns = now_ns + BALANCE_PAUSE_NS;
	put_stolen(c, cpu, p, false, now_ns);
	bpf_task_release(p);
	return 0;
}

#endif
