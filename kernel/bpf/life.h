/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task begins, goes away to another class, comes back, ends.
 *
 * Rule     Who goes away with a reservation or in a domain keeps both (away.h). Who has neither, or ends, leaves nothing.
 */
#ifndef CONSORT_LIFE_H
#define CONSORT_LIFE_H

#include "join.h"
#include "custody.h"
#include "limits.h"
#include "nice.h"

/*
 * A thread begins as far ahead as its maker is: who lets its children go on in its stead would else be forgiven each time
 * what it has had.
 */
static inline u64 makers_lead_ns(const struct task __arena *t, const struct task_struct *p)
{
	struct task_struct *maker = bpf_get_current_task_btf();
	struct task __arena *m = find_task(maker);
	struct consort_cpu __arena *c = cpu_at(bpf_get_smp_processor_id());
	u64 lead_ns;

	if (!m || m->home != t->home || p->se.sum_exec_runtime || m->on_the_way ||
	    (p->real_parent != maker && p->tgid != maker->tgid))
		return 0;
	lead_ns = in_domain(m) ? member_lead_ns(&m->member) :
				 fair_lead_ns(m->member.node.parent, &m->member.node);
	if (c->running == m)
		lead_ns += bpf_ktime_get_ns() - c->since_ns - c->estimated_ns;
	return lead_ns < tunables.granularity_ns ? lead_ns : tunables.granularity_ns;
}

/* What the kernel would weigh a task. */
static inline u32 weight_of_task(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE ? WEIGHT_OF_IDLE : weight_of_nice(p->static_prio - 120);
}

static inline void task_init(struct task __arena *t, const struct task_struct *p)
{
	task_clear(t);
	t->kernel_task = (u64)p;
	t->pid = p->pid;
	t->home = cgroup_of(p);
	t->place = place_for(p, scx_bpf_task_cpu(p), STAY_NOT, false);
	t->weight = weight_of_task(p);
	t->member.node.kind = NODE_TASK;
	t->member.node.weight = t->weight;
	t->member.due_ns = NEVER_NS;
	t->member.priority = PRIORITY_NONE;
	t->pays = &t->member.node;
	t->member.lead_ns = makers_lead_ns(t, p);
	tree_move(&t->member.node, group_in(t->home, t->place), t->member.lead_ns);
	/* It arrives when it first becomes active: the clock of a CPU's own place may be changed with the lock alone. */
	t->on_the_way = !one_cpu;
}

/* Back from another class: its reservation or cgroup, its place and its nice value are what they are by now. */
static inline void come_back(struct task __arena *t, const struct task_struct *p)
{
	struct group_set __arena *home;
	struct consort_slot *s;
	struct lock __arena *l;
	unsigned long flags;

	bpf_local_irq_save(&flags);
	l = task_lock(t);
	t->kernel_task = (u64)p;
	t->away = 0;
	t->pid = p->pid;
	t->weight = weight_of_task(p);
	home = t->reservation ? &t->reservation->set : cgroup_of(p);
	task_move(t, home, t->set, place_for(p, scx_bpf_task_cpu(p), STAY_NOT, false), t->demoted);
	s = t->set ? slot_of(t) : NULL;
	if (s) {
		slot_read(t, s, bpf_get_smp_processor_id(), bpf_ktime_get_ns());
		s->standing = t->demoted ? CONSORT_DEMOTED : CONSORT_MEMBER;
	}
	lock_release(l);
	bpf_local_irq_restore(&flags);
}

/* False: there is no state for it. */
static inline bool task_enter(struct task_struct *p)
{
	struct task __arena *t = find_away(p);
	bool is_back = t;

	if (!t)
		t = task_pool_pop();
	if (!t || !set_task_of(p, t))
		return false;
	if (is_back) {
		come_back(t, p);
	} else {
		task_init(t, p);
		inherit_reservation(t, p);
	}
	return true;
}

/* With its lock held. */
static inline void give_up(struct task __arena *t)
{
	if (t->set) {
		count_on(bpf_get_smp_processor_id())->ends++;
		member_leave(t, t->home);
	}
	if (t->reservation)
		reservation_forget(t);
}

/* It sleeps no more in its domain, and its cgroup may go before it is back. */
static inline void stand_aside(struct task __arena *t)
{
	struct consort_slot *s = t->set ? slot_of(t) : NULL;

	task_move(t, t->reservation ? t->home : root_set, t->set, t->place, t->demoted);
	if (s)
		s->standing = CONSORT_OUTSIDE;
}

/*
 * The task is in no queue and nobody's seat any more. `away`: its task_struct's address if its state is kept, else 0.
 * Always inline, as charge_by_clock is.
 */
static __always_inline void task_leave(struct task __arena *t, u64 away)
{
	unsigned long flags;
	struct lock __arena *l;

	bpf_local_irq_save(&flags);
	if (t->blocked)
		lend_end(t);
	l = task_lock(t);
	t->thief = 0;
	task_take(t);
	hold_no_more(t);
	task_deactivate(t);
	task_end(t);
	ride_leave(t);
	if (away)
		stand_aside(t);
	else
		give_up(t);
	t->away = away;
	t->kernel_task = 0;
	lock_release(l);
	bpf_local_irq_restore(&flags);
}

/* Whether there is anything to keep for the task while it is away. */
static inline bool is_promised(const struct task __arena *t)
{
	return t->set || own_reservation(t);
}

/* The thread has ended while it was away. */
static inline void end_away(struct task __arena *t)
{
	unsigned long flags;
	struct lock __arena *l;

	bpf_local_irq_save(&flags);
	l = task_lock(t);
	give_up(t);
	t->away = 0;
	lock_release(l);
	bpf_local_irq_restore(&flags);
	task_pool_push(t);
}

#endif
