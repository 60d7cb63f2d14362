/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages: a task wakes another one, and is about to wait itself.
 *
 * Problem  Two tasks that send each other messages are one task's work. Among others of their kind each CPU that becomes free
 *          takes whichever has just woken, its own one has to look elsewhere, and nearly each message is a migration. One that
 *          sends to many is interrupted after a shortest slice, and those that it has woken have a message each.
 * Rule     The kernel says which wake-ups are of that kind (SCX_WAKE_SYNC: pipes, sockets). The one that is woken, if it has to wait,
 *          is its sender's CPU's: no other CPU is made to look for it, and that one takes it before others that have just woken.
 *          One that has sent messages goes on for a protected slice.
 * Bound    hot.h. The reader waits for its sender's slice, or until another CPU looks anyway.
 * Source   Linux' wake_affine() and WF_SYNC; slices that grow with the number of CPUs.
 * Limits   Of several that a task wakes, the last one. A member of a domain is woken as any other: it may be due. On one CPU there
 *          is nothing to choose.
 */
#ifndef CONSORT_MESSAGE_H
#define CONSORT_MESSAGE_H

#include "subsets.h"

/* The thread `pid` is being woken by a message, from this CPU. */
static inline void message_sent(s32 pid)
{
	struct consort_cpu __arena *c = cpu_at(bpf_get_smp_processor_id());

	c->sent_ns = bpf_ktime_get_ns();
	c->reader_pid = pid;
}

/* Whether the task that a CPU runs has sent messages since it was chosen. */
static __always_inline bool has_sent(const struct consort_cpu __arena *c)
{
	return (s64)(c->sent_ns - c->began_ns) >= 0;
}

/* A task that has just woken waits. Returns whether a message has woken it, and its sender's CPU chooses again soon. */
core_fn waits_for_sender(struct task __arena *t in_arena)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct consort_cpu __arena *c = cpu_at(cpu);

	USES_ARENA();
	if (!c->running || c->reader_pid != t->pid || !has_sent(c) || !pays_itself(t) ||
	    is_own(t->place) || shard_of_place(t->place) != c->shard || !may_use(t->place, cpu))
		return 0;
	c->reader = t;
	c->reader_pid = 0;
	return c->compare_at_ns != NEVER_NS;
}

#endif
