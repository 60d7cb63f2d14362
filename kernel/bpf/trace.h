/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What `consort trace` records of the scheduler: each switch and wake-up, members that are demoted, and what becomes of
 * intervals.
 *
 * The loader looks into the ring on time; records wake nobody, since that would be seen, too. Where there is no room they
 * are counted.
 */
#ifndef CONSORT_TRACING_H
#define CONSORT_TRACING_H

#include "consort_trace.h"

/* As many as a machine makes in some seconds. */
#define TRACE_RING_BYTES (1 << 23)
#define TASK_DEAD 0x80 /* in the previous state of a switch; a macro, of which BTF does not know */
#define REAL_TIME_PRIORITIES 100

/* What to record: a bit for each enum consort_trace_kind; 0: nothing, `consort late` alone looks on. */
const volatile u32 trace_kinds;
/* What was found before is no part of the trace. */
const volatile u64 trace_from_ns;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TRACE_RING_BYTES);
} records SEC(".maps");

static inline bool traces(u32 kind)
{
	return trace_kinds & 1U << kind;
}

/* A record of that kind, all else 0; NULL: there is no room, which is counted. */
static __always_inline struct consort_trace_record *trace_begin(u32 kind, u32 cpu, u64 now_ns)
{
	struct consort_trace_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r) {
		counts_on(cpu)->unrecorded++;
		return NULL;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->at_ns = now_ns;
	r->kind = kind;
	r->cpu = cpu;
	return r;
}

static __always_inline void trace_end(struct consort_trace_record *r)
{
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static inline u32 trace_reason(const struct task_struct *p, u32 reason)
{
	if (!p->pid)
		return CONSORT_TRACE_IDLE;
	if (p->prio < 0)
		return CONSORT_TRACE_DEADLINE;
	if (p->prio < REAL_TIME_PRIORITIES)
		return CONSORT_TRACE_REAL_TIME;
	return reason ? CONSORT_TRACE_STOCK + reason : CONSORT_TRACE_STOCK;
}

_Static_assert(CONSORT_TRACE_STOCK + CONSORT_REASON_SLICE == CONSORT_TRACE_SLICE &&
		       CONSORT_TRACE_STOCK + CONSORT_REASON_DUE == CONSORT_TRACE_DUE_EVENT &&
		       CONSORT_TRACE_STOCK + CONSORT_REASON_BORROWED == CONSORT_TRACE_BORROWED &&
		       CONSORT_TRACE_STOCK + CONSORT_REASON_RESERVED == CONSORT_TRACE_RESERVED,
	       "the scheduler's reasons follow in the trace's order");

static inline void trace_switch(struct task_struct *prev, struct task_struct *next, u32 state,
				u32 cpu, u64 now_ns, u64 interrupted_ns, u32 reason)
{
	struct consort_trace_record *r;

	if (!traces(CONSORT_TRACE_SWITCH))
		return;
	r = trace_begin(CONSORT_TRACE_SWITCH, cpu, now_ns);
	if (!r)
		return;
	r->tid = next->pid;
	r->pid = next->tgid;
	r->switched.prev_tid = prev->pid;
	r->switched.prev_pid = prev->tgid;
	r->switched.left = !state	     ? CONSORT_TRACE_PREEMPTED :
			   state & TASK_DEAD ? CONSORT_TRACE_ENDED :
					       CONSORT_TRACE_SLEPT;
	r->switched.reason = trace_reason(next, reason);
	r->switched.priority = next->prio;
	r->switched.interrupted_ns = interrupted_ns;
	bpf_probe_read_kernel(r->switched.command, sizeof(r->switched.command), next->comm);
	trace_end(r);
}

static inline void trace_wake(struct task_struct *p, u32 is_new)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct consort_trace_record *r;

	if (!traces(CONSORT_TRACE_WAKE))
		return;
	r = trace_begin(CONSORT_TRACE_WAKE, cpu, bpf_ktime_get_ns());
	if (!r)
		return;
	r->cpu = p->wake_cpu;
	r->tid = p->pid;
	r->pid = p->tgid;
	r->woken.by_tid = bpf_get_current_pid_tgid();
	r->woken.is_new = is_new;
	bpf_probe_read_kernel(r->woken.command, sizeof(r->woken.command), p->comm);
	trace_end(r);
}

/* The member that the scheduler demoted since the CPU switched last: it had the CPU then. */
static inline void trace_demotion(const struct consort_demoted *demoted, u32 seen,
				  struct task_struct *prev, u32 cpu, u64 now_ns)
{
	u32 new = demoted->count - seen;
	struct consort_trace_record *r;

	if (!new || !traces(CONSORT_TRACE_DEMOTE))
		return;
	/* Of several, the last one is known. */
	counts_on(cpu)->unrecorded += new - 1;
	r = trace_begin(CONSORT_TRACE_DEMOTE, cpu, now_ns);
	if (!r)
		return;
	r->tid = demoted->pid;
	r->pid = demoted->pid == prev->pid ? prev->tgid : 0;
	r->demoted.why = demoted->why;
	r->demoted.late_us = demoted->late_us;
	trace_end(r);
}

static inline void trace_interval(const struct consort_became *b, u32 cpu)
{
	struct consort_trace_record *r;

	if (b->at_ns < trace_from_ns)
		return;
	r = trace_begin(CONSORT_TRACE_INTERVAL, cpu, b->at_ns);
	if (!r)
		return;
	r->tid = b->pid;
	r->interval.from_ns = b->from_ns;
	r->interval.until_ns = b->until_ns;
	r->interval.late_ns = b->late_ns;
	r->interval.group = b->group;
	r->interval.count = b->count;
	r->interval.role = b->role;
	r->interval.became = b->became;
	r->interval.why = b->why;
	trace_end(r);
}

/* What the scheduler has found on this CPU since `seen`. */
static inline void trace_intervals(const struct consort_told *told, u64 seen, u32 cpu)
{
	u64 new = told->count - seen;
	u32 i;

	if (!new || !traces(CONSORT_TRACE_INTERVAL))
		return;
	if (new > CONSORT_INTERVALS_TOLD) {
		counts_on(cpu)->unrecorded += new - CONSORT_INTERVALS_TOLD;
		new = CONSORT_INTERVALS_TOLD;
	}
	bpf_for(i, 0, CONSORT_INTERVALS_TOLD)
	{
		if (i >= new)
			break;
		trace_interval(&told->last[(told->count - new + i) & (CONSORT_INTERVALS_TOLD - 1)],
			       cpu);
	}
}

#endif
