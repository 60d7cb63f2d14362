/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Migrate: how a CPU takes a task from the place that it has picked, and how often.
 *
 * Problem  A task that moves leaves behind what its cache holds, and a look at a place from which nobody may come costs
 *          its lock.
 * Rule     A CPU takes one task at a time: that which has waited for longest, of which its cache holds least, or which would
 *          run next there. A place that has given one is left alone for MIGRATE_PAUSE_NS. One from which a CPU could take
 *          nothing that CPU leaves alone for as long, and each time for twice as long.
 *          Where tasks go because they are served faster elsewhere (speeds.h), both places are left alone for a turn by all
 *          that would do the same. Then it is known anew how fast they are, and nobody goes to and fro.
 * Bound    By speeds one task comes to a place or leaves it in MIGRATE_TURN_NS; from a place of all of a cache's CPUs, in
 *          MIGRATE_SHARD_TURN_NS. CPUs that look at the same moment may take one each.
 * Limits   Each CPU remembers VAINS places that it has looked at in vain; more of them share what is remembered.
 */
#ifndef CONSORT_MIGRATE_H
#define CONSORT_MIGRATE_H

#include "shards.h"

/* How long a place is left alone that has given a task. */
#define MIGRATE_PAUSE_NS 5000000ULL

/* How long one from which nothing could be taken is left alone, at most. */
#define MIGRATE_PAUSE_MAX_NS 640000000ULL

/* How long tasks are where they are served faster, until others have their turn. */
#define MIGRATE_TURN_NS 50000000ULL

/* The same for those of shards' places, which have a clock in common: by that others come and go besides (balance.h). */
#define MIGRATE_SHARD_TURN_NS (4 * MIGRATE_TURN_NS)

/* Of so many CPUs one looks at the own places at a time. */
#define LOOK_CPUS 16

/* The place from which a CPU is to take a task, in its `pick`; PLACE_NONE: none. */
static inline void pick_none(struct consort_cpu __arena *c)
{
	c->pick.place = PLACE_NONE;
	c->pick.giver = NULL;
	c->pick.swaps = NULL;
	c->pick.oldest = 0;
	c->pick.faster = 0;
	c->pick.promised_most = 0;
	c->pick.lag = 0;
}

/* What a CPU remembers of a place from which it could take nobody, to be served faster or for another reason. */
static inline struct vain __arena *vain_of(struct consort_cpu __arena *c, u32 place, bool faster)
{
	return &c->vains[place_index(place) % VAINS + (faster ? VAINS : 0)];
}

/* Whether a CPU may look for a task there: the place has given none just now, and that CPU has not looked in vain. */
static inline bool may_look(struct consort_cpu __arena *c, u32 place, bool faster, u64 now_ns)
{
	return now_ns >= giver_at(place)->at_ns && now_ns >= vain_of(c, place, faster)->until_ns;
}

/* A CPU leaves a place alone in which it found nobody. */
static inline void look_ends(struct vain __arena *v, bool took, u64 now_ns)
{
	v->pause_ns = took ? 0 : v->pause_ns * 2;
	if (!took && v->pause_ns < MIGRATE_PAUSE_NS)
		v->pause_ns = MIGRATE_PAUSE_NS;
	if (v->pause_ns > MIGRATE_PAUSE_MAX_NS)
		v->pause_ns = MIGRATE_PAUSE_MAX_NS;
	v->until_ns = now_ns + v->pause_ns;
}

/* A task has come or gone: what the place is served is measured anew. */
static inline void place_changes(const struct consort_cpu __arena *c, u32 place, u64 now_ns)
{
	struct giver __arena *g = giver_at(place);

	g->looks = 0;
	g->served_at_ns = 0;
	if (c->pick.faster)
		g->turn_at_ns = now_ns + (c->pick.place < SHARDS_MAX ? MIGRATE_SHARD_TURN_NS :
								       MIGRATE_TURN_NS);
}

/* What came of a CPU's pick. What is noted of places several CPUs may write at a time: it is a hint. */
core_fn pick_end(struct consort_cpu __arena *c in_arena, u32 came_to, u64 now_ns)
{
	struct giver __arena *g = c->pick.giver;
	bool took = came_to != PLACE_NONE;

	if (c->pick.swaps) {
		c->swap_at_ns = now_ns + MIGRATE_TURN_NS;
		if (took)
			c->pick.swaps->swap_at_ns = c->swap_at_ns;
	}
	look_ends(vain_of(c, c->pick.place, c->pick.faster), took, now_ns);
	if (took) {
		place_changes(c, c->pick.place, now_ns);
		place_changes(c, came_to, now_ns);
	}
	if (!g)
		return 0;
	if (took)
		g->at_ns = now_ns + MIGRATE_PAUSE_NS;
	g->lag = c->pick.lag;
	return 0;
}

/*
 * Takes a task from the place picked; where nobody of a shard's place can come, one of a subset's may, unless it is picked for
 * what it is served itself.
 */
static inline struct task_struct *pull(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	u32 place = c->pick.place;
	struct task_struct *p = NULL;

	for (u32 i = hidden(0); !p && i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		if (i && (place >= SHARDS_MAX || c->pick.faster || !shard_at(place)->nr_in_subsets))
			break;
		p = steal_from(i ? place_of_subset(place, i - 1) : place, cpu, c->pick.oldest,
			       now_ns);
	}
	pick_end(c, p && task_of(p) ? task_of(p)->place : PLACE_NONE, now_ns);
	return p;
}

#endif
