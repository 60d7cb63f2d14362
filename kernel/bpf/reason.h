/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Why a CPU runs what it runs, whom it has demoted, and what became of intervals: noted for `consort late` and
 * `consort trace`, which look at it when the CPU switches; at intervals when it ticks, too.
 */
#ifndef CONSORT_REASON_H
#define CONSORT_REASON_H

#include "consort_trace.h"
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

/* On the CPU that found it, whose interrupts are off. */
static __always_inline void note_interval(const struct role __arena *r, u32 became, u32 why,
					  u64 late_ns, u32 count, u64 now_ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct consort_told *told = &reasons[cpu & topology.cpu_mask].told;
	struct consort_became *b = &told->last[told->count & (CONSORT_INTERVALS_TOLD - 1)];

	b->at_ns = now_ns;
	b->from_ns = became == INTERVAL_PASSED ? 0 : r->from_ns;
	b->until_ns = became == INTERVAL_PASSED ? 0 : r->until_ns;
	b->late_ns = late_ns;
	b->group = r->function->group;
	b->count = count;
	b->pid = r->member ? outer_of(r->member, struct task, member)->pid : 0;
	b->role = r->number;
	b->became = became;
	b->why = why;
	told->count++;
}

_Static_assert((int)INTERVAL_BEGAN == CONSORT_TRACE_BEGAN &&
		       (int)INTERVAL_KEPT == CONSORT_TRACE_KEPT &&
		       (int)INTERVAL_MISSED == CONSORT_TRACE_MISSED &&
		       (int)INTERVAL_PASSED == CONSORT_TRACE_PASSED &&
		       (int)INTERVAL_DROPPED == CONSORT_TRACE_DROPPED &&
		       (int)MISS_VACANT == CONSORT_TRACE_VACANT &&
		       (int)MISS_ASLEEP == CONSORT_TRACE_ASLEEP &&
		       (int)MISS_OUTSIDE == CONSORT_TRACE_OUTSIDE &&
		       (int)MISS_SHARE == CONSORT_TRACE_SHARE &&
		       (int)MISS_OTHERS == CONSORT_TRACE_OTHERS,
	       "what becomes of intervals has the numbers that traces give it");

#endif
