/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Speeds: where tasks of other places would be served faster.
 *
 * Problem  A task whose mask spans caches is in a place of few CPUs in one of them. What it is behind those elsewhere no clock
 *          says: those of full places are not owed it (clocks.h), and which places a task might be in depends on the task.
 * Rule     A place's speed is the CPU time that its tasks have for what they weigh there: an account in several places weighs
 *          its part in each, so that speeds say of a task in any account how it is served. What a place has is measured, anew
 *          when a task has been taken from there or to there. Where tasks wait, what weighs there is what it weighs to them:
 *          what a place is served, by the pace of its virtual time. Else, and at most, it is what weighs there now and over
 *          the time of the measurement, in equal parts: a task that seldom runs is there when its CPU chooses, and mostly not
 *          in between. A heavy task that has a CPU for itself weighs no more than that CPU is worth.
 *          A CPU's speed is that of the slowest of its places, among which it serves by clocks. Of places whose tasks do not
 *          wait, only that of the task which runs here counts: its tasks have a CPU each.
 *          A CPU takes a task from a place of another cache, where somebody always waits, if that task would be served
 *          faster here, by one part in SPEED_PARTS or more, were it half as heavy. If it is no faster in all of its weight,
 *          tasks take turns. Where nearly all has been promised to reserved tasks nobody comes, and from there anybody goes.
 * Bound    At rest no task that may be elsewhere would have more there, but for one part in SPEED_PARTS. Where tasks
 *          can be divided evenly they come to rest; else they move as often as migrate.h says.
 * Source   best responses in a congestion game: with one speed for all tasks of a place each move makes the slowest faster,
 *          and so they end (Rosenthal 1973).
 * Limits   Half of the average task of a place is compared, and one that waits there is taken: beside heavy ones a light one may
 *          stay. Where tasks of several accounts wait all heavy ones count, and so they do in clocks beside masks.
 *          What reservations leave of a place changes when they come there or go: it is measured anew.
 */
#ifndef CONSORT_SPEEDS_H
#define CONSORT_SPEEDS_H

#include "clocks.h"
#include "migrate.h"

/* Over how long CPU time is measured, and on the average of how many such times. */
#define SPEED_NS 40000000ULL
#define SPEED_LOOKS 4

/* For how long tasks have always waited in a place before they go elsewhere. */
#define SPEED_BUSY_NS 100000000ULL

/* What is not worth a move. */
#define SPEED_PARTS 16

/* Where less than that part of a shard has been promised, its classes make room for all of it (core/class.h). */
#define PROMISED_AWAY (WEIGHT_ONE / 4 * 3)

/* Whether tasks have to wait there. */
static inline bool is_loaded(const struct place __arena *pl, u64 now_ns)
{
	return live_busy_ns(&pl->waiters, now_ns);
}

/*
 * The account by whose virtual time the tasks that wait in a place are served: the lowest below which all that are runnable there
 * are, as far as the first of them says; the root if they are of several.
 */
static inline struct group __arena *account_waiting(struct place __arena *pl)
{
	struct waiter __arena *w = pl->waiters.first;
	struct group __arena *g, *lowest = &pl->root;
	struct tree_node __arena *n;

	if (!w)
		return lowest;
	n = pays_of(task_of_node(&outer_of(w, struct member, waiter)->node));
	if (promise_above(n))
		return lowest;
	g = lowest = n->parent;
	while (can_loop) {
		if (!g || !g->level)
			break;
		g = g->node.parent;
		if (g && g->nr_active > 1)
			lowest = g;
	}
	return lowest && lowest->node.kind == NODE_FAIR ? lowest : &pl->root;
}

/*
 * What weighs in a place to the tasks that wait there: all were served `ran_ns` while the virtual time of their account has
 * `grown` by so much, and no more than `all`, what weighs there. Heavy tasks that have a CPU each weigh no more than that
 * CPU is worth.
 */
static inline u64 load_served(const struct place __arena *pl, u64 all,
			      const struct group __arena *account, u64 ran_ns, u64 grown)
{
	u64 load;

	if (pl->nr_cpus < 2 || (s64)grown <= 0 || ran_ns > CHARGE_MAX_NS)
		return all;
	load = load_of_weight(tree_share_if(account, vtime_of_ns(ran_ns, grown), 1));
	return load < all ? load : all;
}

/* What has been promised to the tasks of a shard's place that are runnable, as a part of its CPUs. */
static inline u64 promised(const struct shard __arena *s)
{
	return weight_of_load(s->place.top.load) / (s->nr_cpus ?: 1);
}

/* Whether nearly all of a shard has been promised: its reserved tasks are to have what is left, too. */
static inline bool is_promised_away(const struct shard __arena *s)
{
	return promised(s) > PROMISED_AWAY;
}

/* Measures what a place is served. With the lock of its shard held. */
core_fn speed_look(struct giver __arena *g in_arena, struct place __arena *pl in_arena, u64 now_ns)
{
	u64 gone_ns = now_ns - g->served_at_ns, ran_ns = pl->root.ran_ns, served, weighed, load;
	struct group __arena *account;

	if (!pl->root.nr_active) {
		g->served_at_ns = 0;
		g->looks = 0;
		return 0;
	}
	if (g->served_at_ns && gone_ns < SPEED_NS)
		return 0;
	giver_weigh(g, pl, now_ns);
	account = account_waiting(pl);
	/* When the level of the classes goes it is counted anew. */
	if (g->served_at_ns && ran_ns >= g->served_ran_ns) {
		served = ((ran_ns - g->served_ran_ns) << 10) / (gone_ns >> 10);
		/* Between accounts that come and go what was known of it is better than the sum of all weights. */
		/* By what has weighed there, and as much by what does now: whoever has come of late is there to stay. */
		weighed = (g->weighed - g->served_weighed) / (gone_ns >> 10);
		weighed = (weighed + pl->root.load) / 2;
		load = g->looks ? g->load : weighed;
		if (account == g->served_in)
			load = load_served(pl, weighed, account, ran_ns - g->served_ran_ns,
					   account->vmin - g->served_vtime);
		if (g->looks < SPEED_LOOKS)
			g->looks++;
		g->served = ((g->looks - 1) * g->served + served) / g->looks ?: 1;
		g->load = ((g->looks - 1) * g->load + load) / g->looks ?: 1;
	}
	g->served_at_ns = now_ns;
	g->served_ran_ns = ran_ns;
	g->served_weighed = g->weighed;
	g->served_in = account;
	g->served_vtime = account->vmin;
	return 0;
}

/* The same for the places of a CPU. */
core_fn speeds_look(struct consort_cpu __arena *c in_arena, u64 now_ns)
{
	struct shard __arena *s = shard_at(c->shard);

	speed_look(&c->giver, &c->place, now_ns);
	speed_look(&s->giver, &s->place, now_ns);
	for (u32 i = hidden(0); i < SUBSETS && can_loop; i = hidden(i + 1)) {
		struct subset __arena *b = subset_at(s, i);

		speed_look(&b->giver, &b->place, now_ns);
	}
	return 0;
}

/* What is known of a place from which a CPU may choose. */
static inline struct giver __arena *giver_of_choice(struct consort_cpu __arena *c, u32 i)
{
	struct shard __arena *s = shard_at(c->shard);

	return i > SUBSETS ? &s->giver : i ? &subset_at(s, i - 1)->giver : &c->giver;
}

/* What the running task weighs below the root if it is alone in its account on this CPU; 0: none runs that is below it. */
static inline u64 weight_running(const struct consort_cpu __arena *c)
{
	struct tree_node __arena *n;

	if (!c->running)
		return 0;
	n = pays_of(c->running);
	if (promise_above(n))
		return 0;
	return n->active ? tree_share_if(n->parent, node_weight(n), 1) : 0;
}

/*
 * How fast virtual time goes for the task of the shard's place that has this CPU alone: what it weighs below the root. Its
 * account's goes as fast as that of all its tasks that run.
 */
static inline u64 weight_alone(const struct consort_cpu __arena *c)
{
	return c->running && c->running->place == c->shard ? weight_running(c) : 0;
}

/* Takes a speed for that of a CPU if it is slower than those of the places looked at before. */
static inline void speed_take(struct consort_cpu __arena *c, u64 served, u64 load)
{
	if (c->pick.load && served * c->pick.load >= c->pick.served * load)
		return;
	c->pick.served = served;
	c->pick.load = load;
}

/*
 * The same for a place of whose tasks each has a CPU, where the running one is: the speed of the root's member that it is, or is
 * below. What some of an account cannot use the others of that account have, not those outside of it. Accounts beside the
 * running one's count as a task each.
 */
static inline void speed_take_running(struct consort_cpu __arena *c, struct place __arena *pl)
{
	struct tree_node __arena *n = pays_of(c->running);
	u32 nr = n->kind == NODE_SEAT ? n->nr_seated : 1;

	while (can_loop) {
		struct group __arena *g = n->parent;

		if (!g || g == &pl->root)
			break;
		nr += g->nr_active - n->active;
		n = &g->node;
	}
	if (n->parent == &pl->root && n->active)
		speed_take(c, (u64)nr * WEIGHT_ONE, load_of_weight(node_weight(n)));
}

/*
 * The slowest of a CPU's places, in its `pick`. One in which nobody waits has what it can use, here or on other CPUs: a task
 * that came would share with the one that runs here.
 */
core_fn speed_here(struct consort_cpu __arena *c in_arena, u32 cpu)
{
	u64 alone = weight_alone(c);
	bool known = true;

	USES_ARENA();
	c->pick.load = 0;
	c->pick.turn_at_ns = 0;
	for (u32 i = hidden(0); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_of_choice(c, cpu, i);
		struct giver __arena *g = giver_of_choice(c, i);

		if (!pl || !pl->root.nr_active)
			continue;
		if (c->pick.turn_at_ns < g->turn_at_ns)
			c->pick.turn_at_ns = g->turn_at_ns;
		if (is_loaded(pl, c->kept_up_ns)) {
			known &= !!g->looks;
			speed_take(c, g->served, g->load);
		} else if (c->running && place_at(c->running->place) == pl) {
			speed_take_running(c, pl);
		}
	}
	if (alone && !shard_at(c->shard)->place.root.ready.top)
		speed_take(c, WEIGHT_ONE, load_of_weight(alone));
	if (!known || is_promised_away(shard_at(c->shard)))
		c->pick.load = 0;
	return 0;
}

/* Whether tasks of a place would be served faster by a CPU, and not a little, if `more` weighed there. */
static inline bool is_faster(const struct consort_cpu __arena *to, u64 more,
			     const struct giver __arena *g)
{
	u64 there = g->served * (to->pick.load + more);

	return to->pick.served * g->load > there + there / SPEED_PARTS;
}

/*
 * The same for a place whose first waiting task is of the account of the task that has this CPU alone: it would share the CPU
 * with that one, whatever their account's heavy tasks have. A look without that place's lock: it may be wrong, and costs a move.
 */
core_fn is_faster_within(struct consort_cpu __arena *c in_arena, struct place __arena *pl in_arena,
			 u64 more, struct giver __arena *g in_arena)
{
	struct place __arena *own = &shard_at(c->shard)->place;
	struct waiter __arena *w = pl->waiters.first;
	struct tree_node __arena *runs, *waits;
	u64 alone = weight_alone(c), there;

	if (!w || !alone || own->waiters.first || is_loaded(own, c->kept_up_ns))
		return 0;
	runs = tree_member_above(pays_of(c->running), &own->root);
	waits = tree_member_above(pays_of(task_of_node(&outer_of(w, struct member, waiter)->node)),
				  &pl->root);
	if (!runs || !waits || runs->kind != NODE_FAIR || waits->kind != NODE_FAIR ||
	    group_of(runs)->ledger != group_of(waits)->ledger)
		return 0;
	there = g->served * (load_of_weight(alone) + more);
	return WEIGHT_ONE * g->load > there + there / SPEED_PARTS;
}

/*
 * Picks a place if tasks there, where somebody always waits, would be served faster by this CPU: on the average of the times
 * when one of them is here and when it is not.
 */
static inline bool pick_if_slower(struct consort_cpu __arena *c, u32 place, u64 now_ns)
{
	struct place __arena *pl = place_at(place);
	struct giver __arena *g = giver_at(place);
	u64 half = g->load / (pl->nr_runnable ?: 1) / 2;

	if (!g->looks || now_ns < g->turn_at_ns || !may_look(c, place, true, now_ns) ||
	    live_busy_ns(&pl->waiters, now_ns) < SPEED_BUSY_NS)
		return false;
	if (!is_faster(c, half, g) && !is_faster_within(c, pl, half, g) &&
	    !is_promised_away(shard_at(shard_of_place(place))))
		return false;
	c->pick.place = place;
	c->pick.giver = g;
	c->pick.faster = 1;
	c->pick.oldest = 1;
	return true;
}

/* Picks that of other shards, or of their subsets or CPUs, in which tasks are served slower. */
core_fn pick_slower(struct consort_cpu __arena *c in_arena, u64 now_ns)
{
	if (!c->pick.load || now_ns < c->pick.turn_at_ns)
		return 0;
	for (u32 i = hidden(0); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		if (i != c->shard && pick_if_slower(c, place_of_shard(i), now_ns))
			return 0;
	}
	for (u32 i = hidden(0); i < LOOK_CPUS && i < topology.nr_cpus && can_loop;
	     i = hidden(i + 1)) {
		u32 other = (c->balance_from + i) % topology.nr_cpus;

		if (cpu_at(other)->shard != c->shard &&
		    pick_if_slower(c, place_of_cpu(other), now_ns))
			return 0;
	}
	for (u32 i = hidden(0); i < topology.nr_shards * subsets_of_shard() && can_loop;
	     i = hidden(i + 1)) {
		if (i / SUBSETS != c->shard &&
		    pick_if_slower(c, place_of_subset(i / SUBSETS, i % SUBSETS), now_ns))
			return 0;
	}
	return 0;
}

#endif
