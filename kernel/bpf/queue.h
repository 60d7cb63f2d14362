/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task's way through its place: it becomes active, waits, is chosen, runs, is charged, sleeps.
 *
 * Every function here is called with the lock of the task's shard held.
 */
#ifndef CONSORT_QUEUE_H
#define CONSORT_QUEUE_H

#include "idle.h"
#include "slots.h"
#include "timer.h"

/* One more or one fewer task is runnable in the place: slices change. */
static __always_inline void place_count(struct place __arena *pl, u32 place, s32 more)
{
	u32 nr_runnable = pl->nr_runnable += more;

	if (!one_cpu)
		shard_at(shard_of_place(place))->nr_runnable += more;
	if (!one_cpu && place < SHARDS_MAX) {
		u32 nr_cpus = shard_at(place)->nr_cpus ?: 1;

		nr_runnable = (nr_runnable + nr_cpus - 1) / nr_cpus;
	}
	pl->quantum_ns = slice_ns(tunables.granularity_ns, tunables.min_slice_ns, nr_runnable, 1);
	if (pl->root.node.parent)
		pl->quantum_ns = slice_beside_ns(pl->quantum_ns, tunables.min_slice_ns,
						 class_table.shortest_period_ns);
	pl->window_ns = tunables.window_ns;
}

/* Tells the ledgers of its accounts that a task has become active, or ceases to be. */
static __always_inline void count_load(struct task __arena *t, bool more)
{
	u64 load = load_of_weight(t->member.node.weight);

	if (!one_cpu)
		tree_load(group_in(t->home, t->place), more ? load : -load);
}

/*
 * Before a task comes to a CPU's own place, and becomes active there. While that was empty its clock stood: it may not be behind its shard's.
 * While others are there it may be ahead, by what they have had: that is theirs, and the newcomer begins at the shard's.
 */
static __always_inline void own_place_meets(struct task __arena *t, struct place __arena *pl)
{
	struct consort_cpu __arena *c;
	u64 clock;

	if (one_cpu || t->place < SHARDS_MAX)
		return;
	c = cpu_at(t->place - SHARDS_MAX);
	clock = shard_at(c->shard)->place.root.vmin - c->own_offset;
	if (!pl->root.nr_active && vtime_before(pl->root.vmin, clock))
		c->own_offset += clock - pl->root.vmin;
	else if (pl->root.nr_active && vtime_before(clock, pl->root.vmin))
		pl->root.vmin = clock;
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
	lead_ns = seat_lead_ns(&t->member);
	seat_leave(&t->member);
	place_deactivated(place_at(t->place));
	place_refresh(place_at(t->place), d);
	return lead_ns;
}

/* An inactive task comes to its account, or to the seat that its domain has there; without room for that it is on its own. */
static __always_inline void task_arrive(struct task __arena *t, u64 lead_ns)
{
	struct group __arena *account = group_in(t->home, t->place);

	own_place_meets(t, place_at(t->place));
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

	own_place_meets(t, pl);
	count_load(t, true);
	tree_activate(&t->member.node, now_ns);
	place_activated(pl, &t->member);
	place_count(pl, t->place, 1);
}

static __always_inline void deactivate_alone(struct task __arena *t)
{
	struct place __arena *pl = place_at(t->place);

	tree_deactivate(&t->member.node);
	count_load(t, false);
	place_count(pl, t->place, -1);
}

/* The same begins to wait, or is taken. */
static __always_inline void wait_alone(struct task __arena *t, u64 now_ns)
{
	tree_enqueue(&t->member.node);
	place_wait(place_at(t->place), &t->member, now_ns);
}

static __always_inline void wait_no_more(struct task __arena *t)
{
	struct place __arena *pl = place_at(t->place);

	place_wait_no_more(pl, &t->member);
	if (!one_cpu && !pl->waiters.first)
		pl->waiters.emptied_ns = bpf_ktime_get_ns();
}

static __always_inline void take_alone(struct task __arena *t)
{
	tree_dequeue(&t->member.node);
	wait_no_more(t);
}

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
	own_place_meets(t, pl);
	count_load(t, true);
	seat_activate(&t->member, now_ns);
	place_activated(pl, &t->member);
	place_count(pl, t->place, 1);
	d = domain_in(t->set, t->place);
	domain_wake(d, &t->member);
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
	place_wait(place_at(t->place), &t->member, now_ns);
}

static __always_inline void take_out(struct task __arena *t)
{
	queue_out(t);
	wait_no_more(t);
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

core_fn task_take(struct task __arena *t in_arena)
{
	if (!t->member.node.ready.queued)
		return 0;
	take_out(t);
	refresh(t);
	return 0;
}

/* A switch: `next`, which waits, is taken, and `prev`, which does not, waits. */
core_fn task_exchange(struct task __arena *next in_arena, struct task __arena *prev in_arena,
		      u64 now_ns)
{
	struct tree_node __arena *in = &prev->member.node, *out = &next->member.node;

	struct place __arena *pl = place_at(prev->place);

	if (in->parent != out->parent && (in_domain(prev) || in_domain(next))) {
		take_out(next);
		put_in(prev, now_ns);
	} else {
		if (in->parent != out->parent)
			tree_exchange(out, in);
		else if (in_domain(prev))
			coop_exchange(domain_of(in->parent), &next->member, &prev->member, now_ns);
		else
			group_exchange(in->parent, out, in);
		place_wait_no_more(pl, &next->member);
		place_wait(pl, &prev->member, now_ns);
	}
	if (next->set != prev->set || next->demoted != prev->demoted)
		refresh(next);
	refresh(prev);
	return 0;
}

/* A member that changes places keeps its due debt, and no more: demoted or not. */
static __always_inline void carry_debt(struct task __arena *t, struct domain_set __arena *set,
				       u32 place)
{
	if (set && t->set == set && t->place != place)
		member_carry_debt(&t->member, domain_in(set, t->place), domain_in(set, place));
}

/*
 * Moves a task: to a cgroup, into or out of a domain, to another place. What it was (waiting, active) it is again
 * afterwards; asleep in its domain it is no longer.
 */
core_fn task_move(struct task __arena *t in_arena, struct group_set __arena *home in_arena,
		  struct domain_set __arena *set in_arena, u32 place, u32 demoted)
{
	bool was_waiting = t->member.node.ready.queued, was_active = t->member.node.active;
	u64 lead_ns;

	task_take(t);
	task_deactivate(t);
	lead_ns = task_depart(t, home == t->home && place == t->place);
	carry_debt(t, set, place);
	t->home = home;
	t->set = set;
	t->place = place;
	t->demoted = demoted;
	task_arrive(t, lead_ns);
	if (was_active)
		task_activate(t, bpf_ktime_get_ns());
	if (was_waiting)
		task_wait(t, bpf_ktime_get_ns());
	return 0;
}

/* The seat that pays for a task's run: the one that was picked, if it still is its domain's. */
static __always_inline struct tree_node __arena *pays_of(struct task __arena *t)
{
	struct tree_node __arena *n = t->pays;

	if (!in_domain(t))
		return &t->member.node;
	if (n && n->kind == NODE_SEAT && seat_of_node(n)->domain == t->member.seat->domain)
		return n;
	return &t->member.seat->node;
}

/*
 * On several CPUs: how much of a run, which ends now, was while others waited for the CPU, in its place or its CPU's other
 * one. The rest is nobody's loss. On one CPU virtual time itself moves on with a task that runs alone.
 */
static __always_inline u64 owed_part_ns(const struct task __arena *t, u64 ran_ns, u64 now_ns)
{
	struct consort_cpu __arena *c = cpu_at(t->cpu);
	u64 own_ns = live_busy_ns(&c->place.waiters, now_ns);
	u64 shard_ns = live_busy_ns(&shard_at(c->shard)->place.waiters, now_ns);
	u64 busy_ns = own_ns > shard_ns ? own_ns : shard_ns;

	return ran_ns < busy_ns ? ran_ns : busy_ns;
}

/* A seat pays for a run that ends now, and every account above it. */
static __always_inline void seat_pay(struct task __arena *t, u64 ran_ns, u64 now_ns)
{
	struct place __arena *pl = place_at(t->place);
	struct tree_node __arena *n = pays_of(t);
	u64 owed_ns = one_cpu ? ran_ns : owed_part_ns(t, ran_ns, now_ns);

	tree_charge(n, owed_ns);
	if (!one_cpu && owed_ns < ran_ns)
		tree_count(n, ran_ns - owed_ns);
	if (in_domain(t)) {
		struct domain __arena *d = domain_in(t->set, t->place);

		coop_charge(d, &t->member, ran_ns);
		if (seat_of_node(n)->owing.first) {
			seat_settle(seat_of_node(n));
			place_deactivated(pl);
		}
		if (d->upcoming.queued || d->indebted.top)
			place_refresh(pl, d);
	}
	if (pl->nr_blocked)
		place_unblock(pl, n);
}

core_fn task_charge_ns(struct task __arena *t in_arena, u64 ran_ns, u64 now_ns)
{
	/* Demoted, too: else it would have its part twice, by its account and by due events. */
	if (t->set)
		domain_charge_due(domain_in(t->set, t->place), &t->member, ran_ns, now_ns);
	seat_pay(t, ran_ns, now_ns);
	return 0;
}

/* How much more than its part of the CPU's time a place may have had, of what is remembered. */
static inline s64 lead_max_ns(void)
{
	return tunables.granularity_ns;
}

/* Which part of it `one` is, of 2^16. */
static inline u64 part_of_both(u64 one, u64 other)
{
	u64 both = one + other;

	return both ? (one << 16) / both : 0;
}

/*
 * The two places of a CPU have virtual times of their own; the CPU's time is divided between them in proportion to
 * their weights, the shard's being spread over its CPUs. What one place did not want is not owed to it later.
 */
static inline void divide(const struct task __arena *t, u64 ran_ns)
{
	struct consort_cpu __arena *c = cpu_at(t->cpu);
	struct shard __arena *s = shard_at(c->shard);
	bool is_own = t->place >= SHARDS_MAX;
	/* One that sleeps already was runnable while it ran. */
	u64 asleep = t->member.node.active ? 0 : t->member.node.weight;
	u64 own = c->place.root.weight_active + (is_own ? asleep : 0);
	u64 shared = s->place.root.weight_active + (is_own ? 0 : asleep);
	s64 bound_ns = lead_max_ns(), lead_ns = c->own_lead_ns;

	shared /= s->nr_cpus ?: 1;
	if (is_own)
		lead_ns += ran_ns * part_of_both(shared, own) >> 16;
	else
		lead_ns -= ran_ns * part_of_both(own, shared) >> 16;
	c->own_lead_ns = lead_ns > bound_ns ? bound_ns : lead_ns < -bound_ns ? -bound_ns : lead_ns;
}

/*
 * Charges what the kernel measured since the last time. `total_ns` is the task's sum_exec_runtime; it has just run, or
 * has not run since it was charged.
 */
static inline void task_charge(struct task __arena *t, u64 total_ns, u64 now_ns)
{
	s64 ran_ns = total_ns - t->charged_ns;

	/* Negative: the estimates were too high; that much it will run for nothing. */
	if (ran_ns <= 0)
		return;
	t->charged_ns = total_ns;
	task_settle_in(t);
	if (!one_cpu) {
		divide(t, ran_ns);
		/* One that sleeps already was runnable: without its load its accounts might weigh nothing here. */
		if (t->member.node.active)
			tree_load(group_in(t->home, t->place), 0);
		else
			count_load(t, true);
	}
	task_charge_ns(t, ran_ns, now_ns);
	if (!one_cpu && !t->member.node.active)
		count_load(t, false);
}

static inline u64 task_slice_ns(struct task __arena *t)
{
	u64 slice = place_at(t->place)->quantum_ns;

	return in_domain(t) ? slice * domain_in(t->set, t->place)->group.nr_active : slice;
}

/* How often a CPU looks whose task runs alone while others of its shard do: one of them may come to wait. */
#define LOOK_NS 20000000ULL

/*
 * Whom nobody waits beside in its own place is compared all the same: with those that wait for this CPU in its other place,
 * and with those that run on the shard's other CPUs, which one of them will lose sooner or later.
 */
static __always_inline u64 compare_beside_others_ns(struct consort_cpu __arena *c, u32 place,
						    u64 now_ns, u64 slice)
{
	struct shard __arena *s = shard_at(c->shard);
	struct place __arena *other = place < SHARDS_MAX ? &c->place : &s->place;

	if (place_head(other)->ready.top || s->nr_runnable > s->nr_cpus)
		return now_ns + slice;
	return s->nr_runnable > 1 ? now_ns + LOOK_NS : NEVER_NS;
}

/* The task is not to be taken for the running one any more: it sleeps, ends, or goes to another shard. */
static inline void task_end(struct task __arena *t)
{
	struct consort_cpu __arena *c = cpu_at(t->cpu);

	if (c->running == t)
		c->running = NULL;
}

/* A task that has run alone for less is charged when it is next compared. */
#define ESTIMATE_MIN_NS 1000000

/* How old the kernel's account of a running task may be: it measures at each tick. */
#define MEASURED_LATE_NS 8000000

/*
 * Charges the running task for what it has had by the clock. What the kernel has measured is used later. Always inline:
 * Linux 6.18 lets functions call each other eight deep.
 */
static __always_inline void charge_by_clock(struct consort_cpu __arena *c, u64 now_ns)
{
	struct task __arena *running = c->running;
	const struct task_struct *p = (const struct task_struct *)running->kernel_task;
	s64 ran_ns = now_ns - c->since_ns - c->estimated_ns;
	s64 most_ns = BPF_CORE_READ(p, se.sum_exec_runtime) + MEASURED_LATE_NS - running->charged_ns;

	/* It may have been chosen long before it began to run: a higher class was there. */
	if (ran_ns > most_ns)
		ran_ns = most_ns;
	if (ran_ns <= 0)
		return;
	c->estimated_ns += ran_ns;
	running->charged_ns += ran_ns;
	if (!one_cpu)
		divide(running, ran_ns);
	seat_pay(running, ran_ns, now_ns);
}

/*
 * A task wakes beside a running one, which has not been charged for as long as nobody else wanted the CPU: it is now,
 * so that the one that wakes finds virtual times as they are.
 */
static inline void charge_running(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	struct task __arena *running = c->running;
	s64 ran_ns = now_ns - c->since_ns - c->estimated_ns;

	if (!running || ran_ns < ESTIMATE_MIN_NS)
		return;
	/* It may have been chosen, and not have begun to run. */
	if (cpu != bpf_get_smp_processor_id() || task_of(bpf_get_current_task_btf()) != running)
		return;
	charge_by_clock(c, now_ns);
}

/*
 * A task is about to run, or goes on: decides when it is compared again, tells it, and arms the timer. The task
 * does not wait. `here`: this is the CPU that we run on.
 */
core_fn task_begin(struct consort_cpu __arena *c in_arena, u32 cpu, struct task __arena *t in_arena,
		   u64 now_ns, bool here)
{
	struct place __arena *pl = place_at(t->place);
	u64 slice = task_slice_ns(t);
	u64 at_ns = place_compare_at_ns(pl, pays_of(t), now_ns, slice);
	struct domain __arena *d;
	struct consort_slot *s;

	if (!one_cpu && at_ns > now_ns + slice) {
		u64 beside_ns = compare_beside_others_ns(c, t->place, now_ns, slice);

		if (beside_ns < at_ns)
			at_ns = beside_ns;
	}
	if (t->set) {
		d = domain_in(t->set, t->place);
		if (in_domain(t) && d->order) {
			u64 asks_ns = coop_asks_at_ns(d, &t->member, now_ns, slice);

			if (asks_ns < at_ns)
				at_ns = asks_ns;
		}
		t->yield_by_ns = at_ns;
		s = slot_of(t);
		if (s) {
			slot_write(s, d, at_ns);
			if (t->demoted)
				s->standing = CONSORT_DEMOTED;
		}
		if (in_domain(t) && at_ns != NEVER_NS && !d->preempt)
			at_ns += d->grace_ns;
		/* Whatever is due by now has just been found less urgent. */
		else if (in_domain(t) && at_ns < now_ns + tunables.min_slice_ns)
			at_ns = now_ns + tunables.min_slice_ns;
	}
	if (!one_cpu && t->cpu != cpu)
		task_end(t);
	t->cpu = cpu;
	t->member.node.has_run = 1;
	c->running = t;
	claim_workless(cpu);
	c->since_ns = now_ns;
	c->estimated_ns = 0;
	c->compare_at_ns = at_ns;
	if (here)
		timer_arm(c, cpu, at_ns);
	return 0;
}

/*
 * Whether a member has outstayed the time by which it was to poll, grace included, by the CPU time that it has had
 * since it was chosen: what interrupts and higher classes took from it is not its fault.
 */
static inline bool task_overran(struct task __arena *t, u64 total_ns,
				const struct consort_cpu __arena *c, u64 now_ns)
{
	struct domain __arena *d = domain_in(t->set, t->place);
	u64 ran_ns = total_ns - t->charged_ns + c->estimated_ns + TIMER_EARLY_NS;
	u64 since_ns = c->since_ns;

	if (t->yield_by_ns == NEVER_NS || d->preempt)
		return false;
	return now_ns + TIMER_EARLY_NS >= t->yield_by_ns + d->grace_ns &&
	       (t->yield_by_ns < since_ns || ran_ns >= t->yield_by_ns - since_ns + d->grace_ns);
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
