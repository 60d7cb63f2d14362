/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wake-ups: who runs at once, who waits, and who must be told.
 *
 * Rule     On an idle CPU a task runs at once. Beside a running task it runs at once if it is due and its domain may
 *          borrow, or if virtual time puts it before the running one. A running member of a domain is not
 *          preempted for a due event of another: it is asked to poll, by its yield-by time. But one of its own
 *          domain that wakes in time runs at once: the interrupted event then goes on, and no switch is lost.
 *          Where there are several CPUs, a task that is not due lets the running one have a shortest slice first, from when
 *          that was chosen: tasks that wake each other all the time would else preempt each other at every message, each
 *          time by an interrupt of another CPU.
 *          A task in its first turn (core/slice.h), beside others that wait, is not preempted by a plain one of its group that
 *          weighs no more. Of due events of several domains the earlier one is first.
 *          On several CPUs a due member interrupts nobody while the event of another one, which it alone awaits, is about to be
 *          over: where members are due at a time, tasks beside them would else lose their CPUs to all of them at once, and
 *          those CPUs idle then.
 *          One that is woken by a message waits for its sender's CPU: no other one is made to look (message.h).
 * Bound    A task that would go before the running one waits for it for a shortest slice at most. So does a due member that awaits
 *          an event, and no longer than its domain's grace: then it is due again, whatever has become of that.
 * Source   000 section 2.3.3 (borrowing); docs/measured-facts.md: outsiders need wake-up preemption among themselves.
 */
#ifndef CONSORT_WAKE_H
#define CONSORT_WAKE_H

#include "idle.h"
#include "message.h"
#include "run.h"
#include "way.h"

enum wake_verdict {
	WAKE_WAIT,
	WAKE_RUN, /* insert into the CPU's local queue now */
	WAKE_KICK, /* the CPU must choose again */
};

/* Whether a task's due event is expired and may be served by borrowing. */
static inline bool is_due(struct task __arena *t, u64 now_ns)
{
	struct domain __arena *d;

	if (!in_domain(t) || t->member.due_ns > now_ns)
		return false;
	d = domain_in(t->set, t->place);
	return member_due_counts(&t->member, d) &&
	       place_may_borrow(place_at(t->place), d, &t->member);
}

/* Whether a member of a group that has just woken goes before one that has run for `ran_ns` more than it was charged. */
static inline bool goes_first(const struct tree_node __arena *n,
			      const struct tree_node __arena *running, u64 ran_ns)
{
	const struct group __arena *g = n->parent;

	if (group_has_periods(g))
		return group_before(g, n, running, ran_ns);
	return !vtime_before(running->vtime + vtime_of_ns(ran_ns, node_weight(running)), n->vtime);
}

/*
 * The same for two places of a CPU: by their clocks, at the level of their roots. A task that has been promised the CPU goes before one
 * task that has reserved nothing.
 */
static inline bool place_beats(struct tree_node __arena *n, const struct task __arena *t,
			       struct tree_node __arena *other, const struct task __arena *running,
			       u64 ran_ns)
{
	const struct consort_cpu __arena *c;
	u64 vtime;

	if (!one_cpu && shard_of_place(t->place) != cpu_at(running->cpu)->shard)
		return false;
	c = cpu_at(running->cpu);
	if (class_table.shortest_period_ns && has_claim(n))
		return !has_claim(other) &&
		       (t->place >= SHARDS_MAX ? own_side_may_lead(c) : shared_side_may_lead(c));
	n = tree_member_above(n, &place_at(t->place)->root);
	other = tree_member_above(other, &place_at(running->place)->root);
	if (!n || !other)
		return false;
	vtime = other->vtime + vtime_of_ns(ran_ns, node_weight(other));
	return vtime_before(n->vtime + place_at(t->place)->offset,
			    vtime + place_at(running->place)->offset);
}

/* Whether virtual time puts the woken task before the running one, at the level where they part. */
core_fn vtime_beats(struct task __arena *t in_arena, struct task __arena *running in_arena,
		    u64 ran_ns)
{
	struct tree_node __arena *n = member_pays(&t->member), *pays = pays_of(running), *other;

	if (t->place != running->place)
		return place_beats(n, t, pays, running, ran_ns);
	while (can_loop) {
		if (!n->parent)
			return false;
		other = tree_member_above(pays, n->parent);
		if (other)
			return goes_first(n, other, ran_ns);
		n = &n->parent->node;
	}
	return false;
}

/*
 * Whether a task has its first turn since it woke, beside others that wait, and another one of its group that wakes is no
 * heavier. Of two alone, such as the ends of a pipe, the one that wakes runs at once: the other one is about to sleep.
 */
static inline bool in_first_turn(const struct task __arena *running, const struct task __arena *t,
				 u64 now_ns)
{
	const struct tree_node __arena *n = &t->member.node, *other = &running->member.node;

	return running->turn_until_ns > now_ns && place_head(place_at(running->place))->ready.top &&
	       n->parent == other->parent && !in_domain(t) && n->weight <= other->weight;
}

/* `due`: whether the woken task is, as above. */
static inline bool wake_beats(struct consort_cpu __arena *c, u32 cpu, struct task __arena *t,
			      bool due, u64 now_ns)
{
	struct task __arena *running = c->running;

	if (in_domain(running) && in_domain(t)) {
		struct domain __arena *d = domain_in(running->set, running->place);
		struct consort_slot *slot = slot_of(running);

		/* Its polls since it was chosen may have been no system calls. */
		if (slot)
			slot_read(running, slot, cpu, now_ns);
		if (due && !is_due(running, now_ns) &&
		    (d->preempt || (running->set == t->set && !d->group.ready.top)))
			return true;
		if (running->set == t->set)
			return false;
	}
	/* Of two due events of several domains the earlier one is first, as in the next choice. */
	if (due && is_due(running, now_ns))
		return t->member.due_ns < running->member.due_ns;
	if (!in_domain(running) && due)
		return one_cpu || t->place != running->place ||
		       place_may_interrupt(place_at(t->place), &t->member, pays_of(running),
					   now_ns - c->since_ns - c->estimated_ns);
	if (in_first_turn(running, t, now_ns))
		return false;
	return vtime_beats(t, running, now_ns - c->since_ns - c->estimated_ns);
}

/*
 * Whether the woken task goes before all that wait; or before those of the account in which it meets the running one, whose
 * turn it is: then it takes over, as a member would that is due, within the window.
 */
core_fn takes_over(struct task __arena *t in_arena, struct task __arena *running in_arena)
{
	struct tree_node __arena *n = member_pays(&t->member), *pays = pays_of(running), *up = n;

	if (tree_is_first(n, NULL))
		return true;
	if (t->place != running->place || in_domain(t))
		return false;
	while (can_loop) {
		struct group __arena *g = up->parent;

		if (!g || !g->level)
			return false;
		if (tree_member_above(pays, g))
			return tree_is_first(n, g) &&
			       node_may_take_over(place_at(t->place), &g->node);
		up = &g->node;
	}
	return false;
}

/* Whether no other member of its domain goes before a member that has woken. */
static inline bool is_first_of_domain(struct task __arena *t, u64 now_ns)
{
	return !in_domain(t) ||
	       coop_first(domain_in(t->set, t->place), &t->member, now_ns) == &t->member;
}

/*
 * Several CPUs: whether the running task has not had a shortest slice yet. It is compared at the end of that: by its CPU's
 * timer, or else it is not protected, as the timer of another CPU cannot be armed.
 */
static inline bool is_protected(struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	u64 until_ns = c->since_ns + tunables.min_slice_ns;

	if (one_cpu || now_ns >= until_ns)
		return false;
	if (cpu != bpf_get_smp_processor_id() && c->timer_at_ns > until_ns)
		return false;
	if (until_ns < c->compare_at_ns)
		c->compare_at_ns = until_ns;
	return true;
}

/* Of the CPUs that may run a due member, how many are looked at. */
#define DUE_LOOKS 4

/* Whether the CPU runs a due event that will be over within a grace, or begins one, and nobody waits for that yet. */
static inline bool event_ends_soon(const struct consort_cpu __arena *c, u64 grace_ns, u64 now_ns)
{
	struct task __arena *running = c->running;

	if (now_ns < c->awaited_ns)
		return false;
	return running ? now_ns - c->since_ns <= grace_ns && is_due(running, now_ns) : c->told;
}

/*
 * Several CPUs: whether a due member need not interrupt a task, as a CPU idles that it may use, or will be free within its grace.
 * For a shortest slice it waits, and only CPUs that become free serve it as one that is due.
 */
core_fn due_awaits(struct shard __arena *s in_arena, struct task __arena *t in_arena, u64 now_ns)
{
	u64 grace_ns = domain_in(t->set, t->place)->grace_ns;
	u64 wait_ns = grace_ns < tunables.min_slice_ns ? grace_ns : tunables.min_slice_ns;

	USES_ARENA();
	for (u32 i = hidden(0); i < DUE_LOOKS && can_loop; i = hidden(i + 1)) {
		u32 cpu = cpu_after(s, s->look_at);
		struct consort_cpu __arena *c = cpu_at(cpu);

		s->look_at = cpu;
		if (!may_use(t->place, cpu))
			continue;
		if (!c->running && !c->told && c->online && !higher_class_waits(cpu))
			return 1;
		if (!event_ends_soon(c, grace_ns, now_ns))
			continue;
		c->awaited_ns = now_ns + wait_ns;
		t->member.awaits_ns = c->awaited_ns;
		return 1;
	}
	return 0;
}

/* Returns an enum wake_verdict. */
core_fn wake_decide(struct consort_cpu __arena *c in_arena, u32 cpu,
		    struct task __arena *t in_arena, u64 now_ns)
{
	struct task __arena *running = c->running;
	bool due, beats;

	if (is_dying(bpf_get_smp_processor_id()))
		return WAKE_RUN;
	if (!running)
		return higher_class_waits(cpu) ? WAKE_WAIT : WAKE_RUN;
	due = is_due(t, now_ns);
	beats = wake_beats(c, cpu, t, due, now_ns);
	/* The CPU looks anew when that is over: at the queue that its running task is of. */
	if (due && !one_cpu && t->place == c->shard && running->place == t->place &&
	    !(beats && in_domain(running)) && due_awaits(shard_at(c->shard), t, now_ns))
		return beats && !t->member.awaits_ns ? WAKE_KICK : WAKE_WAIT;
	if (!beats)
		return WAKE_WAIT;
	if (!due && is_protected(c, cpu, now_ns))
		return WAKE_WAIT;
	/* Whoever was chosen for the CPU may not have begun to run yet: leave the order to the next choice. */
	if (cpu != bpf_get_smp_processor_id() || task_of(bpf_get_current_task_btf()) != running)
		return WAKE_KICK;
	if (!due && !takes_over(t, running))
		return WAKE_WAIT;
	if (!is_first_of_domain(t, now_ns))
		return WAKE_KICK;
	if (!due)
		return WAKE_RUN;
	/* As for any due event: it may be that only this one of the domain's seats may borrow. */
	t->pays =
		&domain_seat_for(place_at(t->place), domain_in(t->set, t->place), &t->member)->node;
	return WAKE_RUN;
}

/* A task waits: the running one may have to end sooner, and a member is told what the newcomer wants. */
core_fn wake_inform(struct consort_cpu __arena *c in_arena, u32 cpu,
		    struct task __arena *t in_arena, u64 now_ns)
{
	struct task __arena *running = c->running;
	u64 compare_at_ns = c->compare_at_ns, since_ns = c->since_ns;
	u64 estimated_ns = c->estimated_ns;

	if (running && running->place != t->place)
		live_keep_busy(&place_at(running->place)->waiters, now_ns,
			       now_ns + task_slice_ns(running, now_ns));
	if (!running || (!in_domain(t) && compare_at_ns <= now_ns + task_slice_ns(running, now_ns)))
		return 0;
	task_begin(c, cpu, running, now_ns, cpu == bpf_get_smp_processor_id());
	c->since_ns = since_ns;
	c->estimated_ns = estimated_ns;
	if (compare_at_ns < c->compare_at_ns)
		c->compare_at_ns = compare_at_ns;
	return 0;
}

/* Whether a CPU that runs somebody should choose again for a task that begins to wait. */
static inline bool should_look(struct consort_cpu __arena *c, u32 cpu, struct task __arena *t,
			       bool due, u64 now_ns)
{
	struct task __arena *running = c->running;

	if (!running || !may_use(t->place, cpu))
		return false;
	if (due && !in_domain(running) && wake_beats(c, cpu, t, true, now_ns))
		return true;
	return c->compare_at_ns != NEVER_NS &&
	       c->compare_at_ns > now_ns + 2 * task_slice_ns(running, now_ns);
}

/*
 * A task waits that several CPUs may run. One of them may have begun to run another one when nobody waited, and look much later:
 * it looks now. A task that begins to wait looks at one CPU, in turns; a member that is due at some, for one that runs a task
 * that it may interrupt. Returns the CPU that should look, CPUS_MAX if none.
 */
core_fn look_around(struct shard __arena *s in_arena, struct task __arena *t in_arena, u64 now_ns)
{
	bool due = is_due(t, now_ns);
	u32 looks = due ? DUE_LOOKS : 1;

	if (is_own(t->place) || t->member.awaits_ns)
		return CPUS_MAX;
	while (looks-- && can_loop) {
		u32 cpu = cpu_after(s, s->look_at);

		s->look_at = cpu;
		if (should_look(cpu_at(cpu), cpu, t, due, now_ns))
			return cpu;
	}
	return CPUS_MAX;
}

/*
 * On many CPUs: makes the CPU that should run the task look for it. An idle one, if any: busy ones go on then, its own and the
 * one that should look, `looks`.
 */
static __attribute__((noinline)) void wake_kick(struct task_struct *p, u32 cpu, u32 place,
						enum wake_verdict verdict, u32 looks)
{
	if (tell_idle(p->cpus_ptr, p->pid, place))
		return;
	if (looks != CPUS_MAX)
		kick(looks, KICK(PREEMPT));
	if (verdict == WAKE_KICK ||
	    /* Its timer can only be armed on the CPU itself. */
	    (cpu != bpf_get_smp_processor_id() &&
	     cpu_at(cpu)->timer_at_ns > cpu_at(cpu)->compare_at_ns))
		kick(cpu, KICK(PREEMPT));
}

#endif
