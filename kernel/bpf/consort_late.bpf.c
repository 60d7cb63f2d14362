// SPDX-License-Identifier: GPL-2.0
/*
 * Looks on while whatever scheduler is in charge works, and changes nothing: who waits for a CPU, for how long, and who
 * has it meanwhile.
 *
 * Each CPU remembers its last runs. When a task gets a CPU that has waited for long, its wait goes to the loader
 * with the runs that overlap with it. Of several CPUs it is that one's where the task waited: the one in whose queue it
 * was for longest; under sched_ext, whose tasks are in no CPU's queue until they run, the one that it got. Why a task
 * ran, Consort's scheduler says (reason.h), if it is in charge. `consort trace` has it record what happens instead
 * (trace.h).
 *
 * Those that wait already when looking on begins, or still when it ends, are found by going through all tasks.
 *
 * Another CPU's runs are read while it writes them: a run that it is just replacing may be told half.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "interface.h"
#include "late.h"

char _license[] SEC("license") = "GPL";

const volatile u64 long_ns = 1000000;
const volatile int only_tgid; /* 0: everybody */

const volatile u32 cpu_mask; /* as topology.cpu_mask of the scheduler's */

struct late_counts counts[CPUS_MAX] SEC(".bss.counts");

/* What a CPU does, and did. */
struct cpu_log {
	u64 since_ns; /* when it switched last */
	u64 interrupts_ns; /* so far */
	u64 interrupts_then_ns; /* at that time */
	u64 interrupt_from_ns; /* of the outermost one under way */
	struct task_struct *running; /* only to be looked at by probing reads */
	u32 depth;
	u32 reason; /* of what it runs */
	u32 nr; /* runs so far */
	u32 demotions_seen; /* of those that the scheduler has counted on it */
	u64 intervals_seen; /* the same */
	u32 intervals_looked_at; /* 1: ever */
	struct late_run runs[LATE_RUNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct cpu_log);
} logs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LATE_TASKS_MAX);
	__type(key, s32);
	__type(value, struct late_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} waits SEC(".maps");

/* The scheduler's own, which the loader puts in the place of these if it is there. */
struct consort_reasons reasons[CPUS_MAX] SEC(".data.reasons");

static inline struct cpu_log *log_of(u32 cpu)
{
	return bpf_map_lookup_elem(&logs, &cpu);
}

static inline struct late_counts *counts_on(u32 cpu)
{
	return &counts[cpu & cpu_mask];
}

#include "trace.h"

static inline bool is_looked_at(struct task_struct *p)
{
	return p->pid && (!only_tgid || p->tgid == only_tgid);
}

static inline void begins_to_wait(struct task_struct *p, u64 now_ns, u32 began)
{
	struct late_task *t, fresh = {};
	s32 pid = p->pid;

	if (trace_kinds || !is_looked_at(p))
		return;
	t = bpf_map_lookup_elem(&tasks, &pid);
	if (!t) {
		fresh.tgid = p->tgid;
		bpf_map_update_elem(&tasks, &pid, &fresh, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&tasks, &pid);
		if (!t)
			return;
	}
	if (t->since_ns)
		return;
	t->since_ns = now_ns;
	t->moved_ns = now_ns;
	t->stay_ns = 0;
	t->cpu = p->thread_info.cpu;
	t->began = began;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	trace_wake(p, 0);
	begins_to_wait(p, bpf_ktime_get_ns(), LATE_WOKE);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	trace_wake(p, 1);
	begins_to_wait(p, bpf_ktime_get_ns(), LATE_WOKE);
	return 0;
}

static inline bool is_of_sched_ext(struct task_struct *p)
{
	return bpf_core_field_exists(p->scx.flags) && (p->scx.flags & SCX_TASK_QUEUED);
}

static inline u32 reason_on(u32 cpu, struct task_struct *p)
{
	const struct consort_chosen *chosen;

	/* What it noted last is still there when it is gone. */
	if (!is_of_sched_ext(p))
		return CONSORT_REASON_UNKNOWN;
	chosen = &reasons[cpu & cpu_mask].chosen;
	return chosen->pid == p->pid ? chosen->reason : CONSORT_REASON_UNKNOWN;
}

/* What the scheduler has counted there. */
static inline const struct consort_demoted *demoted_on(u32 cpu)
{
	return &reasons[cpu & cpu_mask].demoted;
}

/* What the scheduler has found on this CPU, whose interrupts are off, since the last time. */
static inline void look_at_intervals(struct cpu_log *log, u32 cpu)
{
	const struct consort_told *told = &reasons[cpu & cpu_mask].told;

	/* Those that are no more there were before the trace. */
	if (!log->intervals_looked_at && told->count > CONSORT_INTERVALS_TOLD)
		log->intervals_seen = told->count - CONSORT_INTERVALS_TOLD;
	log->intervals_looked_at = 1;
	trace_intervals(told, log->intervals_seen, cpu);
	log->intervals_seen = told->count;
}

/* It leaves the queue where it waited for another CPU's. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int to)
{
	s32 pid = p->pid;
	struct late_task *t = is_looked_at(p) ? bpf_map_lookup_elem(&tasks, &pid) : NULL;
	u64 now_ns;

	if (!t || !t->since_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (now_ns - t->moved_ns > t->stay_ns) {
		t->stay_ns = now_ns - t->moved_ns;
		t->stay_cpu = t->cpu;
	}
	t->moved_ns = now_ns;
	t->cpu = to;
	return 0;
}

/* The run that goes on, or has just ended. */
static inline void describe_run(struct late_run *run, struct cpu_log *log, u64 now_ns)
{
	struct task_struct *p = log->running;

	run->from_ns = log->since_ns;
	run->to_ns = now_ns;
	run->interrupted_ns = log->interrupts_ns - log->interrupts_then_ns;
	run->reason = log->reason;
	bpf_probe_read_kernel(&run->pid, sizeof(run->pid), &p->pid);
	bpf_probe_read_kernel(&run->tgid, sizeof(run->tgid), &p->tgid);
	bpf_probe_read_kernel(&run->priority, sizeof(run->priority), &p->prio);
	bpf_probe_read_kernel(run->comm, sizeof(run->comm), p->comm);
}

/* On which CPU somebody ran instead. */
static inline u32 where_it_waited(struct late_task *t, struct task_struct *p, u64 now_ns)
{
	if (is_of_sched_ext(p) || now_ns - t->moved_ns >= t->stay_ns)
		return t->cpu;
	return t->stay_cpu;
}

/* The runs that overlap with a wait, newest first; of a CPU that has not just switched, also the one that goes on. */
static void tell(struct late_task *t, struct task_struct *p, u32 cpu, bool goes_on, u64 now_ns)
{
	struct late_wait *wait = bpf_ringbuf_reserve(&waits, sizeof(*wait), 0);
	struct cpu_log *log = log_of(cpu);
	u32 i, nr = 0;

	if (!wait || !log) {
		counts_on(cpu)->unseen++;
		if (wait)
			bpf_ringbuf_discard(wait, 0);
		return;
	}
	wait->since_ns = t->since_ns;
	wait->until_ns = now_ns;
	wait->pid = p->pid;
	wait->tgid = p->tgid;
	wait->cpu = cpu;
	wait->began = t->began;
	wait->goes_on = goes_on;
	__builtin_memcpy(wait->comm, t->comm, sizeof(wait->comm));
	if (log->running && log->since_ns < now_ns)
		describe_run(&wait->runs[nr++], log, now_ns);
	bpf_for(i, 0, LATE_RUNS)
	{
		struct late_run *run = &log->runs[(log->nr - 1 - i) & (LATE_RUNS - 1)];

		if (i >= log->nr || run->to_ns <= t->since_ns || nr >= LATE_RUNS)
			break;
		wait->runs[nr & (LATE_RUNS - 1)] = *run;
		nr++;
	}
	wait->nr_runs = nr;
	bpf_ringbuf_submit(wait, 0);
}

static inline void has_waited(struct late_task *t, struct task_struct *p, bool goes_on, u64 now_ns)
{
	u64 waited_ns = now_ns - t->since_ns;

	t->waits++;
	t->sum_ns += waited_ns;
	if (waited_ns > t->max_ns)
		t->max_ns = waited_ns;
	if (waited_ns >= long_ns) {
		t->over++;
		bpf_probe_read_kernel(t->comm, sizeof(t->comm), p->comm);
		tell(t, p, where_it_waited(t, p, now_ns), goes_on, now_ns);
	}
	t->since_ns = 0;
}

/* It did not wait, whatever woke it while it ran. */
static inline void ran_until_now(struct task_struct *p)
{
	s32 pid = p->pid;
	struct late_task *t =
		!trace_kinds && is_looked_at(p) ? bpf_map_lookup_elem(&tasks, &pid) : NULL;

	if (t)
		t->since_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now_ns = bpf_ktime_get_ns();
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_log *log = log_of(cpu);
	struct late_task *t;
	s32 pid = next->pid;

	if (!log)
		return 0;
	counts_on(cpu)->switches++;
	if (trace_kinds) {
		/* What was before the trace is no part of it. */
		if (log->since_ns)
			trace_demotion(demoted_on(cpu), log->demotions_seen, prev, cpu, now_ns);
		log->demotions_seen = demoted_on(cpu)->count;
		look_at_intervals(log, cpu);
		trace_switch(prev, next, preempt ? 0 : prev_state, cpu, now_ns,
			     log->interrupts_ns - log->interrupts_then_ns, reason_on(cpu, next));
	} else {
		/* The first one has run since before looking on began. */
		if (!log->running)
			log->running = prev;
		describe_run(&log->runs[log->nr & (LATE_RUNS - 1)], log, now_ns);
		log->nr++;
	}
	/* What interrupts take now is that of the next one. */
	log->since_ns = now_ns;
	log->interrupts_then_ns = log->interrupts_ns;
	/* None is under way: one whose begin alone was seen, while this was being attached, would go on for ever. */
	log->depth = 0;
	log->reason = reason_on(cpu, next);
	log->running = next;
	ran_until_now(prev);
	if (preempt || !prev_state)
		begins_to_wait(prev, now_ns, LATE_LOST);
	t = pid && !trace_kinds ? bpf_map_lookup_elem(&tasks, &pid) : NULL;
	if (t && t->since_ns) {
		if (is_of_sched_ext(next))
			t->cpu = cpu;
		has_waited(t, next, false, now_ns);
	}
	return 0;
}

static inline int interrupt_begins(void)
{
	struct cpu_log *log = log_of(bpf_get_smp_processor_id());

	if (log && !log->depth++)
		log->interrupt_from_ns = bpf_ktime_get_ns();
	return 0;
}

static inline int interrupt_ends(void)
{
	struct cpu_log *log = log_of(bpf_get_smp_processor_id());

	if (!log || !log->depth)
		return 0;
	if (!--log->depth)
		log->interrupts_ns += bpf_ktime_get_ns() - log->interrupt_from_ns;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq, int irq, struct irqaction *action)
{
	return interrupt_begins();
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_end, int irq, struct irqaction *action, int ret)
{
	return interrupt_ends();
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq, unsigned int vector)
{
	return interrupt_begins();
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_end, unsigned int vector)
{
	return interrupt_ends();
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(on_timer, int vector)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu_log *log = log_of(cpu);

	/* A CPU whose task runs alone does not switch. */
	if (trace_kinds && log)
		look_at_intervals(log, cpu);
	return interrupt_begins();
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(on_timer_end, int vector)
{
	return interrupt_ends();
}

/* These two are larger in some kernels than in others. */
static inline bool is_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_cpu);
}

static inline bool is_queued(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_rq) == 1;
}

static inline bool waits_now(struct task_struct *p)
{
	return !p->__state && is_queued(p) && !is_on_cpu(p);
}

/* For each task when looking on begins: some wait, and some run and may go on for long. */
SEC("iter/task")
int find_waiting(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct cpu_log *log = p && is_on_cpu(p) ? log_of(p->thread_info.cpu) : NULL;

	if (log && !log->running)
		log->running = p;
	if (p && waits_now(p))
		begins_to_wait(p, bpf_ktime_get_ns(), LATE_FOUND);
	return 0;
}

/* For each task when it ends. */
SEC("iter/task")
int tell_waiting(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct late_task *t;
	s32 pid = p ? p->pid : 0;

	if (!p || !waits_now(p))
		return 0;
	t = bpf_map_lookup_elem(&tasks, &pid);
	if (t && t->since_ns)
		has_waited(t, p, true, bpf_ktime_get_ns());
	return 0;
}
