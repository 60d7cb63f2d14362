/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A CPU's choice of its next task: who has run is charged, the CPU's two places are compared, the one chosen is handed
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

	if (!s)
		return;
	seq = *(volatile u32 *)&s->poll_seq;
	if (!t->demoted && task_overran(t, total_ns, c, now_ns)) {
		count_on(cpu)->overruns++;
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
core_fn account(struct consort_cpu __arena *c in_arena, u32 cpu, struct task __arena *t in_arena,
		u64 total_ns, u64 now_ns)
{
	if (t->set)
		look_at_contract(t, total_ns, c, cpu, now_ns);
	task_charge(t, total_ns, now_ns);
	return 0;
}

/* Chooses among the CPU's two places; `running` competes in its own. The result is the CPU's `choice`. */
static __always_inline void choose(struct consort_cpu __arena *c, struct task __arena *running,
				   u64 now_ns)
{
	struct place __arena *pl = &shard_at(c->shard)->place;
	struct choice __arena *best = &c->choice, *own = &c->own_choice;
	bool is_own = running && running->place >= SHARDS_MAX;
	s64 owed_ns;

	place_choose(pl, running && !is_own ? &running->member.node : NULL, now_ns, best);
	if (one_cpu || (!is_own && !place_head(&c->place)->ready.top))
		return;
	place_choose(&c->place, is_own ? &running->member.node : NULL, now_ns, own);
	owed_ns = lead_max_ns();
	/* Due times decide, until one of the places has had so much more than its part that the other is owed. */
	if (!own->task || (best->task && c->own_lead_ns >= owed_ns))
		return;
	if (!best->task || c->own_lead_ns <= -owed_ns || own->due_ns < best->due_ns ||
	    (own->due_ns == best->due_ns && c->own_lead_ns <= 0)) {
		/* Not as a whole: clang copies structs of the arena by addresses that the kernel refuses. */
		best->task = own->task;
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
