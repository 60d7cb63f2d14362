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
	flight_end(c);
	c->running = NULL;
	lock_release(l);
}

/*
 * The task that was put aside is not the CPU's current one any more: it waits where any other does. With the shard's
 * lock held. Returns its thread's id if it may move, else 0.
 */
core_fn let_go(struct consort_cpu __arena *c in_arena, u32 cpu)
{
	struct task __arena *t = c->left;
	struct task_struct *p;
	u32 place;
	int pid = 0;

	c->left = NULL;
	if (!t || t->stays != STAY_FOR_A_MOMENT || t->place != place_of_cpu(cpu) ||
	    !t->member.node.ready.queued)
		return 0;
	p = bpf_task_from_pid(t->pid);
	if (!p)
		return 0;
	t->stays = p->migration_disabled ? STAY : STAY_NOT;
	if (t->stays == STAY_NOT)
		pid = t->pid;
	place = place_for(p, cpu, t->stays, true);
	if (place != t->place)
		task_move(t, t->home, t->set, place, t->demoted);
	bpf_task_release(p);
	return pid;
}

/*
 * A task that is being enqueued is put aside if it has to be. Its CPU has then switched to it, and so away from one that
 * was before.
 */
core_fn look_aside(struct consort_cpu __arena *c in_arena, u32 cpu, struct task __arena *t in_arena)
{
	if (t->stays != STAY_FOR_A_MOMENT)
		return 0;
	if (c->left && c->left != t)
		let_go(c, cpu);
	c->left = t;
	/* As soon as the CPU has switched. */
	timer_arm(c, cpu, bpf_ktime_get_ns());
	return 0;
}

/* The CPU has switched: the task that was put aside may go. */
static inline void release_left(struct consort_cpu __arena *c, u32 cpu)
{
	struct lock __arena *l = &shard_at(c->shard)->lock;
	struct task __arena *t;
	struct task_struct *p;
	unsigned long flags;
	int pid;

	bpf_local_irq_save(&flags);
	lock_take(l);
	pid = let_go(c, cpu);
	lock_release(l);
	bpf_local_irq_restore(&flags);
	p = pid ? bpf_task_from_pid(pid) : NULL;
	if (p) {
		t = task_of(p);
		if (t)
			wake_kick(p, cpu, t->place, WAKE_WAIT, CPUS_MAX);
		bpf_task_release(p);
	}
}

#endif
