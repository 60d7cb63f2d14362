/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Why a CPU runs what it runs, and whom it has demoted: noted for `consort late` and `consort trace`, which look at it when
 * the CPU switches.
 */
#ifndef CONSORT_REASON_H
#define CONSORT_REASON_H

#include "queue.h"

struct consort_reasons reasons[CPUS_MAX] SEC(".data.reasons");

static __always_inline u32 reason_of(const struct task __arena *t, u64 now_ns)
{
	const struct tree_node __arena *pays = t->pays;

	if (in_domain(t) && t->member.due_ns <= now_ns)
		return pays && pays->parent && vtime_before(pays->parent->vmin, pays->vtime) ?
			       CONSORT_REASON_BORROWED :
			       CONSORT_REASON_DUE;
	return t->reservation ? CONSORT_REASON_RESERVED : CONSORT_REASON_SLICE;
}

static __always_inline void note_reason(u32 cpu, const struct task __arena *t, u64 now_ns)
{
	struct consort_chosen *chosen;

	/* As for counters, see count_on(). */
	asm volatile("" : "+r"(cpu));
	chosen = &reasons[cpu & topology.cpu_mask].chosen;
	chosen->pid = t->pid;
	chosen->reason = reason_of(t, now_ns);
}

/* On the CPU that the member has, or had until now. */
static inline void note_demotion(const struct task __arena *t, u32 why, u32 late_us)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct consort_demoted *demoted = &reasons[cpu & topology.cpu_mask].demoted;

	demoted->pid = t->pid;
	demoted->why = why;
	demoted->late_us = late_us;
	demoted->count++;
}

#endif
