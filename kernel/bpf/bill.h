/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bills: what the daemon has done for a program, that program pays.
 *
 * Problem  The daemon answers above all that is scheduled here. A program that asks all the time would take the CPU from
 *          everybody, and be charged for none of it.
 * Rule     The daemon bills its CPU time to a thread of the program that has asked. The thread, and every account above it,
 *          are charged as if it had run for so long.
 * Bound    A program and what the daemon does for it have no more than the program's share, but for what is not billed yet,
 *          and for what a sleeper is owed.
 * Source   resource containers (Banga, Druschel, Mogul 1999); lazy receiver processing (Druschel, Banga 1996).
 * Limits   A thread that never runs again pays by the accounts above it alone. One that another class has, or that has ended,
 *          pays nothing: the daemon bounds each user's part of its time itself.
 */
#ifndef CONSORT_BILL_H
#define CONSORT_BILL_H

#include "charge.h"
#include "members.h"

/* More than any request takes. */
#define BILL_MAX_NS 1000000000ULL

/* The caller holds the task's lock. */
core_fn task_bill(struct task __arena *t in_arena, u64 ns, u64 now_ns)
{
	bool waits = t->member.node.ready.queued;

	task_settle_in(t);
	if (waits)
		task_hide(t);
	if (!one_cpu)
		charge_begin(t, now_ns);
	task_charge_ns(t, ns, now_ns);
	if (!one_cpu)
		charge_end(t);
	if (waits)
		task_show(t, now_ns);
	return 0;
}

call_fn consort_bill(struct consort_bill_args *args)
{
	USES_ARENA();
	struct held_task h;

	args->error = EINVAL;
	if (args->ns > BILL_MAX_NS)
		return 0;
	args->error = task_hold(&h, args->tid, args->start_ticks, false);
	if (args->error)
		return 0;
	task_bill(h.t, args->ns, bpf_ktime_get_ns());
	task_let_go(&h);
	return 0;
}

#endif
