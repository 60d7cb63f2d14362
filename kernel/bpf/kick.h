/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kicks: making a CPU look for its next task.
 *
 * Problem  The kernel sends a kick, and from Linux 7 on starts a timer, by an irq_work of the CPU that asks. The last of
 *          those run while that CPU goes offline; yet after that it wakes the one who waits for its end. What it then
 *          asks for stays in its list, and as only the first entry of a list raises the interrupt, all that it asks
 *          for once it is back is lost too: its kicks, its timers, and the end of the scheduler.
 * Rule     A CPU that is not online any more kicks nobody and starts no timer. Whom it wakes goes to the local queue of
 *          the task's CPU, which the kernel interrupts by itself.
 */
#ifndef CONSORT_KICK_H
#define CONSORT_KICK_H

#include "state.h"

/* Whether the CPU is past the point in going offline at which the kernel takes it out of its mask. */
static inline bool is_dying(u32 cpu)
{
	const struct cpumask *online;
	bool dying;

	if (one_cpu || cpu_at(cpu)->online)
		return false;
	online = scx_bpf_get_online_cpumask();
	dying = !bpf_cpumask_test_cpu(cpu, online);
	scx_bpf_put_cpumask(online);
	return dying;
}

core_fn kick(u32 cpu, u64 flags)
{
	USES_ARENA();
	if (!is_dying(bpf_get_smp_processor_id()))
		scx_bpf_kick_cpu(cpu, flags);
	return 0;
}

#endif
