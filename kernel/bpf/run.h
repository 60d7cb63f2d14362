/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Running: when the task that has a CPU is compared again, and what it is told of that.
 *
 * Every function here is called with the lock of the task's shard held.
 */
#ifndef CONSORT_RUN_H
#define CONSORT_RUN_H

#include "charge.h"
#include "idle.h"
#include "reason.h"
#include "roles.h"
#include "subsets.h"
#include "timer.h"

/* Global: of a static function Linux 6.18's verifier says that it has a bug ("unexpected regs"), where enqueue looks around. */
__weak __noinline u64 task_slice_ns(struct task __arena *t in_arena, u64 now_ns)
{
	struct place __arena *pl = place_at(t->place);
	u64 slice = pl->quantum_ns, all;

	/* Others of its domain may run on the other CPUs meanwhile. */
	if (in_domain(t)) {
		all = domain_slices_ns(pl, domain_in(t->set, t->place)) / (pl->nr_cpus ?: 1);
		if (all > slice)
			slice = all;
	}
	return t->turn_until_ns > now_ns + slice ? t->turn_until_ns - now_ns : slice;
}

/*
 * A task that has just woken begins its first turn, unless it is new: those that never sleep have none. With a small share it
 * would be ahead of that for long after a long one.
 */
static __always_inline void turn_begin(struct task __arena *t, const struct place __arena *pl,
				       u64 now_ns)
{
	const struct tree_node __arena *n = &t->member.node;

	if (!n->has_run && pl->first_ns && t->charged_ns)
		t->turn_until_ns =
			now_ns + tree_part_ns(pays_of(t), pl->first_average_ns, pl->first_ns);
}

/* How often a CPU looks whose task runs alone: others of its shard may come to wait, and only their own CPUs are told. */
#define LOOK_NS 20000000ULL

/*
 * When to look next of slices that another CPU's may coincide with: a task that waits there in turns would always have been
 * taken just before, or begin to wait just after.
 */
static __always_inline u64 out_of_step_ns(u64 now_ns, u64 slice)
{
	return slice / 2 + ((now_ns >> 4) * 0x9e3779b1 >> 8 & 0xff) * (slice / 2) / 256;
}

/*
 * Whom nobody waits beside in its own place is compared all the same: with those that wait for this CPU in its other places,
 * and with those that run on the shard's other CPUs, which one of them will lose sooner or later.
 */
static __always_inline u64 compare_beside_others_ns(struct consort_cpu __arena *c, u32 cpu,
						    u64 now_ns, u64 slice)
{
	struct shard __arena *s = shard_at(c->shard);

	if (place_head(&s->place)->ready.top || waits_beside(c, cpu))
		return now_ns + slice;
	if (s->nr_runnable > s->nr_cpus)
		return now_ns + out_of_step_ns(now_ns, slice);
	return now_ns + LOOK_NS;
}

/*
 * A task is about to run on a CPU for which tasks of another place wait. It could let them have that, and share one of those on
 * which others of its own place run: for as long as it runs these are not alone there either.
 */
core_fn keep_others_waiting(struct consort_cpu __arena *c in_arena, u32 cpu,
			    struct place __arena *own in_arena, u64 now_ns, u64 until_ns)
{
	USES_ARENA();
	for (u32 i = hidden(0); i < PLACES_OF_CPU && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = place_of_choice(c, cpu, i);

		if (!pl || pl == own || !pl->waiters.first)
			continue;
		live_keep_busy(&own->waiters, now_ns, until_ns);
		break;
	}
	return 0;
}

/* Whether the CPU may serve another place than a running task's: most machines have no tasks that are bound to some CPUs. */
static __always_inline bool has_places_beside(const struct consort_cpu __arena *c,
					      const struct place __arena *own)
{
	const struct shard __arena *s = shard_at(c->shard);

	return s->nr_in_subsets || c->place.nr_runnable || own != &s->place;
}

/* The task is not to be taken for the running one any more: it sleeps, ends, or goes to another shard. */
static inline void task_end(struct task __arena *t)
{
	struct consort_cpu __arena *c = cpu_at(t->cpu);

	if (c->running != t)
		return;
	flight_end(c);
	c->running = NULL;
}

/* A task has the CPU, and is hot there (core/hot.h). It takes the room of one that has left, or of one that waits. */
core_fn hot_note(struct consort_cpu __arena *c in_arena, u32 cpu, struct task __arena *t in_arena)
{
	u32 at = HOT - 1;

	for (u32 i = 0; i < HOT; i++) {
		const struct task __arena *other = c->hot[i];

		if (other == t)
			return 0;
		if (!other || other->cpu != cpu || !other->member.node.active)
			at = i;
	}
	c->hot[at] = c->hot[0];
	c->hot[0] = t;
	return 0;
}

/*
 * The task has the CPU, to be compared again at a time. `here`: this is the CPU that we run on. On several CPUs the caller arms
 * its timer later (timer_follow).
 */
static __always_inline void task_has_cpu(struct consort_cpu __arena *c, u32 cpu,
					 struct task __arena *t, u64 at_ns, u64 now_ns, bool here)
{
	if (!one_cpu && t->cpu != cpu)
		task_end(t);
	t->cpu = cpu;
	note_reason(cpu, t, now_ns);
	t->member.node.has_run = 1;
	if (!one_cpu && !c->running)
		clock_serves(c, place_at(t->place));
	if (!one_cpu && c->running != t)
		c->began_ns = now_ns;
	c->running = t;
	if (!one_cpu) {
		hot_note(c, cpu, t);
		flight_begin(c, pays_of(t), place_at(t->place)->quantum_ns);
	}
	claim_workless(cpu);
	c->since_ns = now_ns;
	c->estimated_ns = 0;
	c->compare_at_ns = at_ns;
	if (here && one_cpu)
		timer_arm(c, cpu, at_ns);
}

/*
 * By when a member is to poll: at `at_ns`, but nobody can before it has begun; and one that goes on is not told to sooner than it
 * was, unless it still can.
 */
static inline u64 yield_by_ns(const struct task __arena *t, u64 at_ns, u64 now_ns)
{
	u64 earliest_ns = t->yield_by_ns < now_ns ? t->yield_by_ns : now_ns;

	return at_ns < earliest_ns ? earliest_ns : at_ns;
}

/* Whether a member is asked to poll, of a domain that is neither preempted at due times nor led by a function. */
static inline bool asks_to_poll(const struct task __arena *t)
{
	return !domain_in(t->set, t->place)->preempt;
}

/*
 * A task is about to run, or goes on: decides when it is compared again, tells it, and arms the timer, as above. The task
 * does not wait.
 */
core_fn task_begin(struct consort_cpu __arena *c in_arena, u32 cpu, struct task __arena *t in_arena,
		   u64 now_ns, bool here)
{
	struct place __arena *pl = place_at(t->place);
	struct domain __arena *d;
	struct consort_slot *s;
	u64 slice, at_ns;

	/* Nobody may ever come to this place, or go. */
	if (pl->changes != tunables.changes)
		place_count(pl, t->place, 0);
	turn_begin(t, pl, now_ns);
	slice = task_slice_ns(t, now_ns);
	/* It may have borrowed for its due event: whether it goes on is asked when that is over. */
	if (in_domain(t) && t->member.due_ns <= now_ns && asks_to_poll(t))
		slice = tunables.min_slice_ns;
	at_ns = place_compare_at_ns(pl, pays_of(t), now_ns, slice);

	if (!one_cpu && at_ns > now_ns + slice) {
		u64 beside_ns = compare_beside_others_ns(c, cpu, now_ns, slice);

		if (beside_ns < at_ns)
			at_ns = beside_ns;
	}
	if (t->set) {
		d = domain_in(t->set, t->place);
		if (in_domain(t) && d->order) {
			u64 asks_ns = d->function ? role_asks_at_ns(d, t, now_ns, slice) :
						    coop_asks_at_ns(d, &t->member, now_ns, slice);

			if (d->preempt && asks_ns < now_ns + tunables.min_slice_ns)
				asks_ns = now_ns + tunables.min_slice_ns;
			if (asks_ns < at_ns)
				at_ns = asks_ns;
			if (d->function)
				at_ns = role_begins(c, t, at_ns, now_ns);
		}
		if (c->running != t)
			contract_begin(t, now_ns);
		at_ns = yield_by_ns(t, at_ns, now_ns);
		t->yield_by_ns = at_ns;
		record_choice(t, now_ns);
		s = slot_of(t);
		if (s) {
			slot_write(s, d, at_ns);
			if (t->demoted)
				s->standing = CONSORT_DEMOTED;
		}
		if (in_domain(t) && at_ns != NEVER_NS && !d->preempt)
			at_ns += d->grace_ns;
		/*
		 * Whatever is due by now has just been found less urgent; what is due in a moment has not. And who should have
		 * polled by now has not had the CPU for as long.
		 */
		if (in_domain(t) && at_ns <= now_ns)
			at_ns = now_ns + tunables.min_slice_ns;
	}
	if (!one_cpu && has_places_beside(c, pl))
		keep_others_waiting(c, cpu, pl, now_ns,
				    at_ns < now_ns + slice ? at_ns : now_ns + slice);
	if (nr_limits) {
		/* A demoted member is to have polled by a time that may be over. */
		if (at_ns < now_ns + slice)
			slice = at_ns > now_ns ? at_ns - now_ns : 0;
		budget_grant(t, slice, now_ns);
		if (t->granted_ns && now_ns + t->granted_ns < at_ns)
			at_ns = now_ns + t->granted_ns;
	}
	task_has_cpu(c, cpu, t, at_ns, now_ns, here);
	return 0;
}

/* The same on this CPU; most tasks are in no domain, none is there, and tunables are as they were. */
static __always_inline void task_begin_here(struct consort_cpu __arena *c, u32 cpu,
					    struct task __arena *t, u64 now_ns)
{
	struct place __arena *pl = place_at(t->place);

	if (one_cpu && !t->set && !place_has_domains(pl) && pl->changes == tunables.changes &&
	    !nr_limits) {
		turn_begin(t, pl, now_ns);
		task_has_cpu(c, cpu, t, place_slice_ends_at_ns(pl, now_ns, task_slice_ns(t, now_ns)),
			     now_ns, true);
	} else {
		task_begin(c, cpu, t, now_ns, true);
	}
}

/*
 * Whether a member has outstayed the time by which it was to poll, grace included, by the CPU time that it has had
 * since it was chosen: what interrupts and higher classes took from it is not its fault.
 */
static inline bool task_overran(const struct task __arena *t, u64 total_ns, u64 now_ns)
{
	struct domain __arena *d = domain_in(t->set, t->place);
	/* It may have been charged for more than the kernel has counted yet. */
	s64 ran_ns = total_ns - t->began_charged_ns + TIMER_EARLY_NS;

	if (t->yield_by_ns == NEVER_NS || d->preempt)
		return false;
	return now_ns + TIMER_EARLY_NS >= t->yield_by_ns + d->grace_ns &&
	       ran_ns >= (s64)(t->yield_by_ns - t->began_ns + d->grace_ns);
}

#endif
