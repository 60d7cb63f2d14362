/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A CPU's choice of its next task: the task that ran is charged, the CPU's two places are compared, the one chosen is handed
 * to the kernel. Every function here is called with the shard's lock held.
 */
#ifndef CONSORT_CHOOSE_H
#define CONSORT_CHOOSE_H

#include "custody.h"

/* What the task that just ran has done about its contract. */
static inline void look_at_contract(struct task __arena *t, u64 total_ns,
				    const struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	struct consort_slot *s = slot_of(t);
	u32 seq;

	if (!s) {
		if (has_function(t))
			role_look(t, total_ns, c->since_ns, now_ns);
		return;
	}
	seq = *(volatile u32 *)&s->poll_seq;
	if (!t->demoted && task_overran(t, total_ns, c, now_ns)) {
		count_on(cpu)->overruns++;
		slot_write_why(t, s, CONSORT_WHY_POLLED_LATE, now_ns - t->yield_by_ns);
		task_set_demoted(t, 1);
	} else if (seq != t->poll_seq) {
		count_on(cpu)->polls++;
		if (t->demoted && now_ns < t->yield_by_ns) {
			count_on(cpu)->restorations++;
			task_set_demoted(t, 0);
		}
	}
	slot_look_interrupted(t, s);
	t->poll_seq = seq;
	/* Also without a poll: those that returned at once have published, too. */
	slot_read(t, s, cpu, now_ns);
}

/* Of the task that ran until now: what it has done, and what it pays. */
static __always_inline void account(struct consort_cpu __arena *c, u32 cpu, struct task __arena *t,
				    u64 total_ns, u64 now_ns)
{
	if (t->set)
		look_at_contract(t, total_ns, c, cpu, now_ns);
	task_charge(t, total_ns, now_ns);
}

/* The member of a place's root that is, or is above, the seat that a choice picked; NULL: it is in a class. */
static __always_inline struct tree_node __arena *root_member(struct place __arena *pl,
							     const struct choice __arena *choice)
{
	return tree_member_above(choice->pays, &pl->root);
}

/* How far a place may be ahead of the other one because of due events, in virtual time. */
static __always_inline s64 place_may_lead(const struct place __arena *pl,
					  const struct tree_node __arena *n)
{
	return vtime_of_ns(pl->window_ns + pl->quantum_ns, node_weight(n));
}

/*
 * The CPU's own place goes by its shard's clock: what the shard's virtual time is, its own is with `own_offset` added. One
 * that cannot keep up, as more is bound to this CPU than is its part, has all of it, and earns no credit.
 */
static __always_inline void own_clock_follow(struct consort_cpu __arena *c, struct place __arena *pl,
					     const struct tree_node __arena *own_n,
					     const struct tree_node __arena *n)
{
	/* The shard's clock moves on by a slice of each of its CPUs at a time, and its domains may lead. */
	u64 least = pl->root.vmin - vtime_of_ns(2 * LAG_MAX_NS, node_weight(own_n)) -
		    2 * place_may_lead(pl, n);

	if (vtime_before(c->place.root.vmin + c->own_offset, least))
		c->own_offset = least - c->place.root.vmin;
}

/* Whether the CPU's own place goes before its shard's, both of which have a task for it, and no classes. */
static __always_inline bool own_goes_first(struct consort_cpu __arena *c, struct place __arena *pl,
					   struct tree_node __arena *own_n,
					   struct tree_node __arena *n)
{
	const struct choice __arena *best = &c->choice, *own = &c->own_choice;
	s64 lead;

	own_clock_follow(c, pl, own_n, n);
	lead = own_n->vtime + c->own_offset - n->vtime;
	if (own->due_ns < best->due_ns)
		return lead <= place_may_lead(&c->place, own_n);
	if (best->due_ns < own->due_ns)
		return -lead > place_may_lead(pl, n);
	return lead <= 0;
}

/* The same beside classes: by what each has had of the CPU beside the other. */
static __always_inline bool own_is_owed(const struct consort_cpu __arena *c)
{
	const struct choice __arena *best = &c->choice, *own = &c->own_choice;
	s64 owed_ns = lead_max_ns();

	/* Due times decide, until one of the places has had so much more than its part that the other is owed. */
	if (c->own_lead_ns >= owed_ns)
		return false;
	return c->own_lead_ns <= -owed_ns || own->due_ns < best->due_ns ||
	       (own->due_ns == best->due_ns && c->own_lead_ns <= 0);
}

/* Nobody else wants the CPU: what its own place has of it is not owed to anybody. */
static __always_inline void own_clock_rest(struct consort_cpu __arena *c, struct place __arena *pl)
{
	s64 lead = c->place.root.vmin + c->own_offset - pl->root.vmin;

	if (lead > 0)
		c->own_offset -= lead;
}

/* Chooses among the CPU's two places; `running` competes in its own. The result is the CPU's `choice`. */
static __always_inline void choose(struct consort_cpu __arena *c, struct task __arena *running,
				   u64 now_ns)
{
	struct place __arena *pl = &shard_at(c->shard)->place;
	struct choice __arena *best = &c->choice, *own = &c->own_choice;
	bool is_own = running && running->place >= SHARDS_MAX, own_first;
	struct tree_node __arena *n = running ? &running->member.node : NULL, *own_n;
	struct tree_node __arena *pays = running ? pays_of(running) : NULL;

	place_deactivated(pl);
	if (!one_cpu) {
		place_deactivated(&c->place);
		best->is_alone = !place_head(&c->place)->ready.top;
	}
	if (is_own || !place_choose_plain(pl, n, pays, now_ns, best))
		place_choose(pl, is_own ? NULL : n, pays, now_ns, best);
	if (one_cpu || (!is_own && !place_head(&c->place)->ready.top))
		return;
	own->is_alone = !best->task;
	place_choose(&c->place, is_own ? n : NULL, pays, now_ns, own);
	if (!own->task)
		return;
	if (!best->task) {
		own_first = true;
		own_clock_rest(c, pl);
	} else if (own->waited_ns || best->waited_ns) {
		own_first = own->waited_ns > best->waited_ns;
	} else {
		own_n = root_member(&c->place, own);
		n = root_member(pl, best);
		own_first = own_n && n && !pl->root.node.parent && !c->place.root.node.parent ?
				    own_goes_first(c, pl, own_n, n) :
				    own_is_owed(c);
	}
	if (own_first) {
		/* Not as a whole: clang copies structs of the arena by addresses that the kernel refuses. */
		best->task = own->task;
		best->pays = own->pays;
		best->due_ns = own->due_ns;
	}
}

/*
 * Gives the kernel the task that has been taken from its queue, with the shard's lock held: whatever the kernel does
 * to the task it will do afterwards, and then forgets what we gave it.
 */
static inline void hand_over(struct consort_cpu __arena *c, u32 cpu, struct task __arena *t,
			     u64 now_ns)
{
	struct task_struct *p = bpf_task_from_pid(t->pid);

	if (p && may_run_on(t, p, cpu)) {
		count_on(cpu)->switches++;
		run_here(p, cpu, kernel_slice_ns(c, now_ns));
	} else {
		count_on(cpu)->lost++;
		if (p)
			task_wait(t, now_ns);
		kick(cpu, KICK(PREEMPT));
	}
	if (p)
		bpf_task_release(p);
}

/*
 * Who has run competes with those that wait, if it may go on. A task that came here while another scheduler or none
 * was in charge is not ours yet.
 */
static inline struct task __arena *task_of_prev(struct consort_cpu __arena *c,
						const struct task_struct *prev)
{
	struct task __arena *t = prev ? task_of(prev) : NULL;

	return t && (one_cpu || shard_of_place(t->place) == c->shard) ? t : NULL;
}

/*
 * Who has run waits at once, so that its successor is told what it wants and one lock is taken; the kernel enqueues
 * it in a moment. Not where another CPU could take it before that, nor a task that ends: the kernel will not
 * hand that to us again.
 */
static inline bool waits_at_once(const struct task __arena *running, const struct task_struct *prev)
{
	return one_cpu && running && !running->member.node.ready.queued &&
	       !(prev->flags & PF_EXITING);
}

#endif
