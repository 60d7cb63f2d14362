/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task's way through its place: it comes and goes, becomes active, waits, is taken, sleeps.
 *
 * Every function here is called with the lock of the task's shard held.
 */
#ifndef CONSORT_QUEUE_H
#define CONSORT_QUEUE_H

#include "budget.h"
#include "clocks.h"
#include "flight.h"
#include "loads.h"

/* How many CPUs of a shard choose from the place. */
static __always_inline u32 cpus_of_place(struct shard __arena *s, u32 place)
{
	u32 nr = s->nr_cpus ?: 1, nr_in_subset;

	if (place < SHARDS_MAX)
		return nr;
	if (is_own(place))
		return 1;
	nr_in_subset = online_in(s, place - PLACE_SUBSETS);
	return nr_in_subset < nr ? nr_in_subset ?: 1 : nr;
}

/* The same of its shard; how many tasks are runnable for each CPU that chooses from the place. */
static __always_inline u32 count_in_shard(struct place __arena *pl, u32 place, s32 more)
{
	struct shard __arena *s = shard_at(shard_of_place(place));

	s->nr_runnable += more;
	if (place >= PLACE_SUBSETS)
		s->nr_in_subsets += more;
	if (!is_own(place))
		pl->nr_cpus = cpus_of_place(s, place);
	return (pl->nr_runnable + pl->nr_cpus - 1) / pl->nr_cpus;
}

/* One more or one fewer task is runnable in the place: slices change. Or none, and tunables have. */
static __always_inline void place_count(struct place __arena *pl, u32 place, s32 more)
{
	u32 nr_runnable = pl->nr_runnable += more;

	pl->changes = tunables.changes;
	pl->nr_cpus = 1;
	if (!one_cpu)
		nr_runnable = count_in_shard(pl, place, more);
	pl->quantum_ns = slice_ns(tunables.granularity_ns, tunables.min_slice_ns, nr_runnable);
	pl->protected_ns =
		protected_slice_ns(tunables.granularity_ns, tunables.min_slice_ns, pl->nr_cpus);
	pl->members_ns = MEMBERS_ROUNDS * tunables.granularity_ns;
	pl->first_ns = first_turn_ns(tunables.granularity_ns);
	pl->first_average_ns = first_turn_average_ns(tunables.granularity_ns, nr_runnable);
	if (pl->root.node.parent) {
		pl->quantum_ns = slice_beside_ns(pl->quantum_ns, tunables.min_slice_ns,
						 class_table.shortest_period_ns);
		pl->protected_ns = slice_beside_ns(pl->protected_ns, tunables.min_slice_ns,
						   class_table.shortest_period_ns);
		pl->members_ns = 0;
		pl->first_ns = one_cpu ? 0 :
					 first_turn_beside_ns(pl->first_ns,
							      class_table.shortest_period_ns);
		if (!one_cpu)
			class_weigh(pl);
	}
	pl->window_ns = tunables.window_ns;
}

/*
 * Where a place beside its shard's begins: where the CPU is that the newcomer comes to, which for as long as it has nothing
 * to do is where the shard is.
 */
static __always_inline u64 clock_of_newcomers(const struct task __arena *t)
{
	u32 shard = shard_of_place(t->place);
	const struct consort_cpu __arena *c =
		cpu_at(is_own(t->place) ? t->place - SHARDS_MAX : t->cpu);

	return c->running && c->shard == shard ? c->clock : place_clock(&shard_at(shard)->place);
}

/*
 * Before a task comes to a place beside its shard's, and becomes active there. While that was empty its clock stood: it may
 * not be behind. It may be ahead, by what others there have had: that is theirs, whether they are there still or sleep.
 */
core_fn place_beside_meets(struct task __arena *t in_arena, struct place __arena *pl in_arena)
{
	u64 clock = clock_of_newcomers(t) - pl->offset, least;

	USES_ARENA();
	if (vtime_before(pl->root.vmin, clock)) {
		if (!pl->root.nr_active)
			pl->root.vmin = clock;
		return 0;
	}
	/* The others of a subset may have been served by other CPUs, which are further. */
	least = pl->root.vmin - clock_slack(pl);
	pl->root.vmin = is_own(t->place) ? clock : vtime_max(clock, least);
	return 0;
}

static __always_inline void place_meets(struct task __arena *t, struct place __arena *pl)
{
	if (!one_cpu && t->place >= SHARDS_MAX)
		place_beside_meets(t, pl);
}

/*
 * Takes an inactive task out of its account, and of its domain's seats. Returns how far it was ahead there: it takes that
 * along. `returns`: to the same account, whose own lead stays what it is.
 */
static __always_inline u64 task_depart(struct task __arena *t, bool returns)
{
	struct domain __arena *d;
	u64 lead_ns;

	if (t->on_the_way)
		return t->member.lead_ns;
	if (!in_domain(t))
		return returns ? fair_lead_ns(t->member.node.parent, &t->member.node) :
				 tree_take_lead_ns(&t->member.node);
	d = domain_in(t->set, t->place);
	if (t->member.asleep)
		domain_wake(d, &t->member);
	lead_ns = member_lead_ns(&t->member);
	seat_leave(&t->member);
	place_deactivated(place_at(t->place));
	place_refresh(place_at(t->place), d);
	return lead_ns;
}

/* An inactive task comes to its account, or to the seat that its domain has there; without room for that it is on its own. */
static __always_inline void task_arrive(struct task __arena *t, u64 lead_ns)
{
	struct group __arena *account = group_in(t->home, t->place);

	place_meets(t, place_at(t->place));
	t->on_the_way = 0;
	t->member.node.weight = t->weight;
	t->pays = &t->member.node;
	if (in_domain(t) && !domain_has_room(domain_in(t->set, t->place), account))
		t->demoted = 1;
	if (in_domain(t))
		seat_join(domain_in(t->set, t->place), &t->member, account, lead_ns);
	else
		tree_move(&t->member.node, account, lead_ns);
}

/* A task that has come from another place arrives, now that the lock of this one is held. */
static __always_inline void task_settle_in(struct task __arena *t)
{
	if (!one_cpu && t->on_the_way)
		task_arrive(t, t->member.lead_ns);
}

/* A task that is in no domain becomes active in its account, or ceases to be. */
static __always_inline void activate_alone(struct task __arena *t, u64 now_ns)
{
	struct place __arena *pl = place_at(t->place);

	place_meets(t, pl);
	count_load(t, true);
	tree_activate(&t->member.node, now_ns);
	place_activated(pl, &t->member.node);
	place_count(pl, t->place, 1);
}

static __always_inline void deactivate_alone(struct task __arena *t)
{
	struct place __arena *pl = place_at(t->place);

	tree_deactivate(&t->member.node);
	count_load(t, false);
	place_count(pl, t->place, -1);
}

/* A task is among those that wait in its place, or is no more. */
static __always_inline void wait_begins(struct task __arena *t, u64 now_ns)
{
	place_wait(place_at(t->place), &t->member, now_ns);
	if (!one_cpu)
		shard_at(shard_of_place(t->place))->nr_waiting++;
}

static __always_inline void wait_ends(struct task __arena *t)
{
	struct place __arena *pl = place_at(t->place);

	place_wait_no_more(pl, &t->member);
	if (one_cpu)
		return;
	shard_at(shard_of_place(t->place))->nr_waiting--;
	if (!pl->waiters.first)
		live_busy_until(&pl->waiters, bpf_ktime_get_ns());
}

/* A task that is in no domain begins to wait, or is taken. */
static __always_inline void wait_alone(struct task __arena *t, u64 now_ns)
{
	tree_enqueue(&t->member.node);
	wait_begins(t, now_ns);
}

static __always_inline void take_alone(struct task __arena *t)
{
	tree_dequeue(&t->member.node);
	wait_ends(t);
}

static inline void role_wakes(struct task __arena *t, u64 now_ns);
static inline void role_moved(const struct task __arena *t);
__weak int held_moved(struct task __arena *t in_arena);

core_fn task_activate(struct task __arena *t in_arena, u64 now_ns)
{
	struct place __arena *pl = place_at(t->place);
	struct domain __arena *d;

	if (t->member.node.active)
		return 0;
	task_settle_in(t);
	t->member.interrupted = 0;
	t->pays = &t->member.node;
	if (!in_domain(t)) {
		activate_alone(t, now_ns);
		return 0;
	}
	place_meets(t, pl);
	count_load(t, true);
	seat_activate(&t->member, now_ns);
	place_activated(pl, &t->member.seat->node);
	place_count(pl, t->place, 1);
	d = domain_in(t->set, t->place);
	domain_wake(d, &t->member);
	if (d->function)
		role_wakes(t, now_ns);
	place_refresh(pl, d);
	return 0;
}

/*
 * The level of the classes stays until the next choice, and so until a last run in a class has been charged: a task that
 * sleeps after each bit of work would else never be ahead of the root.
 */
core_fn task_deactivate(struct task __arena *t in_arena)
{
	struct place __arena *pl = place_at(t->place);

	if (!t->member.node.active)
		return 0;
	if (!in_domain(t)) {
		deactivate_alone(t);
		return 0;
	}
	seat_deactivate(&t->member, bpf_ktime_get_ns());
	count_load(t, false);
	place_count(pl, t->place, -1);
	return 0;
}

static __always_inline void refresh(struct task __arena *t)
{
	if (in_domain(t))
		place_refresh(place_at(t->place), domain_in(t->set, t->place));
}

/* Puts an active task among those from which its place chooses, or takes it out. How long it has waited is another matter. */
static __always_inline void queue_in(struct task __arena *t, u64 now_ns)
{
	if (in_domain(t))
		seat_enqueue(&t->member, now_ns);
	else
		tree_enqueue(&t->member.node);
}

static __always_inline void queue_out(struct task __arena *t)
{
	if (in_domain(t))
		seat_dequeue(&t->member);
	else
		tree_dequeue(&t->member.node);
}

static __always_inline void put_in(struct task __arena *t, u64 now_ns)
{
	if (t->member.node.ready.queued)
		return;
	queue_in(t, now_ns);
	wait_begins(t, now_ns);
}

static __always_inline void take_out(struct task __arena *t)
{
	queue_out(t);
	wait_ends(t);
}

/* A waiting task is out of the queue for as long as others are looked at, and waits all the while. */
core_fn task_hide(struct task __arena *t in_arena)
{
	queue_out(t);
	refresh(t);
	return 0;
}

core_fn task_show(struct task __arena *t in_arena, u64 now_ns)
{
	queue_in(t, now_ns);
	refresh(t);
	return 0;
}

core_fn task_wait(struct task __arena *t in_arena, u64 now_ns)
{
	put_in(t, now_ns);
	refresh(t);
	return 0;
}

/* The same of one that has waited elsewhere since then. */
static __always_inline void task_wait_on(struct task __arena *t, u64 since_ns, u64 now_ns)
{
	task_wait(t, now_ns);
	live_wait_on(&place_at(t->place)->waiters, &t->member.waiter, since_ns);
}

core_fn task_take(struct task __arena *t in_arena)
{
	if (!t->member.node.ready.queued)
		return 0;
	take_out(t);
	refresh(t);
	return 0;
}

/* Of two tasks of a place `next` waits no more, and `prev` begins to. */
static __always_inline void exchange_waiters(struct task __arena *next, struct task __arena *prev,
					     u64 now_ns)
{
	struct place __arena *pl = place_at(prev->place);

	place_wait_no_more(pl, &next->member);
	place_wait(pl, &prev->member, now_ns);
}

/* A switch: `next`, which waits, is taken, and `prev`, which does not, waits. */
core_fn task_exchange_any(struct task __arena *next in_arena, struct task __arena *prev in_arena,
			  u64 now_ns)
{
	struct tree_node __arena *in = &prev->member.node, *out = &next->member.node;

	if (in->parent != out->parent && (in_domain(prev) || in_domain(next))) {
		take_out(next);
		put_in(prev, now_ns);
	} else {
		if (in->parent != out->parent)
			tree_exchange(out, in);
		else if (in_domain(prev))
			seat_exchange(&next->member, &prev->member, now_ns);
		else
			group_exchange(in->parent, out, in);
		exchange_waiters(next, prev, now_ns);
	}
	if (next->set != prev->set || next->demoted != prev->demoted)
		refresh(next);
	refresh(prev);
	return 0;
}

/* The same; most tasks are in no domain, of one account, and not behind there. */
static __always_inline void task_exchange(struct task __arena *next, struct task __arena *prev,
					  u64 now_ns)
{
	struct tree_node __arena *in = &prev->member.node, *out = &next->member.node;
	struct group __arena *g = in->parent;

	if (next->set || prev->set || g != out->parent || group_has_periods(g) ||
	    vtime_before(in->vtime, g->vmin)) {
		task_exchange_any(next, prev, now_ns);
		return;
	}
	fair_replace(g, out, in);
	exchange_waiters(next, prev, now_ns);
}

/* A member that changes places keeps its due debt, and no more: demoted or not. */
static __always_inline void carry_debt(struct task __arena *t, struct domain_set __arena *set,
				       u32 place)
{
	if (set && t->set == set && t->place != place)
		member_carry_debt(&t->member, domain_in(set, t->place), domain_in(set, place));
}

/*
 * Moves a task: to a cgroup, into or out of a domain, to another place. What it was (waiting, active, interrupted) it is
 * again afterwards; asleep in its domain it is no longer.
 */
core_fn task_move(struct task __arena *t in_arena, struct group_set __arena *home in_arena,
		  struct domain_set __arena *set in_arena, u32 place, u32 demoted)
{
	bool was_waiting = t->member.node.ready.queued, was_active = t->member.node.active;
	u8 was_interrupted = t->member.interrupted;
	u64 since_ns = t->member.waiter.since_ns, lead_ns;

	budget_give_back(t);
	task_take(t);
	if (!one_cpu && cpu_at(t->cpu)->running == t)
		flight_end(cpu_at(t->cpu));
	task_deactivate(t);
	lead_ns = task_depart(t, home == t->home && place == t->place);
	carry_debt(t, set, place);
	t->home = home;
	t->set = set;
	t->place = place;
	t->demoted = demoted;
	task_arrive(t, lead_ns);
	if (was_active) {
		task_activate(t, bpf_ktime_get_ns());
		t->member.interrupted = was_interrupted;
	}
	if (was_waiting)
		task_wait_on(t, since_ns, bpf_ktime_get_ns());
	if (was_active)
		role_moved(t);
	if (t->held_by)
		held_moved(t);
	return 0;
}

/*
 * The member competes alone, as any task of its account, and pays for its run itself; or is a member again. Its part of the
 * seat's lead goes with it, and its own comes back with it: no CPU time is gained by being demoted again and again.
 */
static __always_inline void task_set_demoted(struct task __arena *t, u32 demoted)
{
	task_move(t, t->home, t->set, t->place, demoted);
}

#endif
