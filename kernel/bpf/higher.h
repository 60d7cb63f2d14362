/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Higher classes (real-time, deadline, stop) take a CPU from us.
 *
 * Problem  Who ran there shall run elsewhere. But the kernel ejects a scheduler that moves a task whose migration is
 *          disabled, and every BPF program disables that of the current task while it runs: the task is
 *          not to be moved before its CPU has switched away from it, and nothing tells us when.
 * Rule     Such a task waits in its CPU's own place until the CPU's timer fires, under the other task.
 * Limits   Kernels that refuse BPF timers: it waits until the higher class is done.
 */
#ifndef CONSORT_HIGHER_H
#define CONSORT_HIGHER_H

#include "custody.h"
#include "wake.h"

/* Of a task that is being enqueued. */
static inline u8 stay_of(const struct task_struct *p, u32 cpu)
{
	bool current = bpf_get_current_task_btf() == p;

	if (current && higher_class_waits(cpu))
		return STAY_FOR_A_MOMENT;
	/* The program that runs now counts once. */
	return p->migration_disabled > current ? STAY : STAY_NOT;
}

/* Nobody of ours runs there any more. */
static inline void cpu_is_taken(struct consort_cpu __arena *c)
{
	struct lock __arena *l = &shard_at(c->shard)->lock;

	lock_take(l);
	c->running = NULL;
	lock_release(l);
}

/* The CPU has switched: the task that was put aside may go. */
static inline void release_left(struct consort_cpu __arena *c, u32 cpu)
{
	struct task __arena *t;
	struct task_struct *p = NULL;
	struct lock __arena *l = &shard_at(c->shard)->lock;
	unsigned long flags;
	bool may_go = false;
	u32 place;

	bpf_local_irq_save(&flags);
	lock_take(l);
	t = c->left;
	c->left = NULL;
	if (t && t->stays == STAY_FOR_A_MOMENT && t->place == place_of_cpu(cpu) &&
	    t->member.node.ready.queued)
		p = bpf_task_from_pid(t->pid);
	if (p) {
		may_go = !p->migration_disabled;
		t->stays = may_go ? STAY_NOT : STAY;
		place = place_for(p, cpu, t->stays);
		if (place != t->place)
			task_move(t, t->home, t->set, place, t->demoted);
	}
	lock_release(l);
	bpf_local_irq_restore(&flags);
	if (p) {
		if (may_go)
			wake_kick(p, cpu, WAKE_WAIT);
		bpf_task_release(p);
	}
}

#endif
