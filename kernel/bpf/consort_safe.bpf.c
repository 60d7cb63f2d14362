// SPDX-License-Identifier: GPL-2.0
/*
 * Safe mode: what schedules after the kernel has ejected Consort twice for the same reason.
 *
 * Rule     One queue of the kernel's own for all tasks, in the order of virtual time: CPU time divided by weight. Whoever
 *          finds an idle CPU runs at once. No domains, no reservations, no cgroup weights, no locks and no timers of
 *          ours: nothing that can stall.
 * Bound    Nobody's virtual time is ahead of the queue's by more than a slice at the least weight. Weights count
 *          between a quarter and four times nice 0's, so that even a few hundred of the heaviest tasks a CPU let the
 *          lightest one run before the kernel's watchdog ejects the scheduler (30 s).
 * Limits   Slices end at the tick. One queue costs machines with many caches some locality.
 */
#include "exit.h"
#include "interface.h"
#include "kernel.h"

char _license[] SEC("license") = "GPL";

#define SLICE_NS 4000000ULL
/* The kernel's weight of nice 0, and the bounds. */
#define WEIGHT_NICE_0 100
#define WEIGHT_MIN 25
#define WEIGHT_MAX 400
#define ALL_TASKS 0 /* the queue's number */

struct consort_exit_info exit_info;
u64 vtime_now; /* of the task that was furthest when it began to run */
u64 since_ns[CPUS_MAX]; /* when the running task of a CPU began to */

s32 scx_bpf_create_dsq(u64 dsq, s32 node) __ksym;
bool scx_bpf_dsq_move_to_local(u64 dsq) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2(u64 dsq, u64 flags) __ksym __weak;
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime,
			      u64 flags) __ksym __weak;
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p,
				struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;

/* As the kernel's struct of that name, which Linux 6.18 has not: its type information would be looked for in vain. */
struct insert_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

static inline void insert_by_vtime(struct task_struct *p, u64 vtime, u64 flags)
{
	struct insert_args args = {
		.dsq_id = ALL_TASKS,
		.slice = SLICE_NS,
		.vtime = vtime,
		.enq_flags = flags,
	};

	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime))
		__scx_bpf_dsq_insert_vtime(p, (void *)&args);
	else
		scx_bpf_dsq_insert_vtime(p, ALL_TASKS, SLICE_NS, vtime, flags);
}

static inline void set_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

static inline u64 *since_on(u32 cpu)
{
	/* Keeps the compiler from proving the mask needless: the verifier cannot follow its proof. */
	asm volatile("" : "+r"(cpu));
	return &since_ns[cpu & (CPUS_MAX - 1)];
}

static inline u64 vtime_of_ns(u64 ns, u64 weight)
{
	if (weight < WEIGHT_MIN)
		weight = WEIGHT_MIN;
	if (weight > WEIGHT_MAX)
		weight = WEIGHT_MAX;
	return ns * WEIGHT_NICE_0 / weight;
}

/* Kicks of a CPU that is on its way offline are lost, and may be the last ones of that CPU: see kick.h. */
static inline bool may_kick(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool may = bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), online);

	scx_bpf_put_cpumask(online);
	return may;
}

SEC("struct_ops/safe_select_cpu")
s32 BPF_PROG(safe_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		insert_task(p, DSQ(LOCAL), SLICE_NS, 0);
	return cpu;
}

SEC("struct_ops/safe_enqueue")
void BPF_PROG(safe_enqueue, struct task_struct *p, u64 flags)
{
	u64 vtime = p->scx.dsq_vtime, least = vtime_now - SLICE_NS;
	s32 cpu;

	/* Whoever slept has no claim to more than a slice. */
	if ((s64)(vtime - least) < 0)
		vtime = least;
	insert_by_vtime(p, vtime, flags);
	if (!may_kick())
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, KICK(IDLE));
}

SEC("struct_ops/safe_dispatch")
void BPF_PROG(safe_dispatch, s32 cpu, struct task_struct *prev)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2))
		scx_bpf_dsq_move_to_local___v2(ALL_TASKS, 0);
	else
		scx_bpf_dsq_move_to_local(ALL_TASKS);
}

SEC("struct_ops/safe_running")
void BPF_PROG(safe_running, struct task_struct *p)
{
	u64 vtime = p->scx.dsq_vtime;

	*since_on(bpf_get_smp_processor_id()) = bpf_ktime_get_ns();
	if ((s64)(vtime - vtime_now) > 0)
		vtime_now = vtime;
}

SEC("struct_ops/safe_stopping")
void BPF_PROG(safe_stopping, struct task_struct *p, bool runnable)
{
	u64 ran_ns = bpf_ktime_get_ns() - *since_on(bpf_get_smp_processor_id());

	/* Beyond its slice a task runs when nobody waits: it owes that to nobody. */
	if (ran_ns > SLICE_NS)
		ran_ns = SLICE_NS;
	set_vtime(p, p->scx.dsq_vtime + vtime_of_ns(ran_ns, p->scx.weight));
}

SEC("struct_ops/safe_enable")
void BPF_PROG(safe_enable, struct task_struct *p)
{
	set_vtime(p, vtime_now);
}

/* A later scheduler finds nothing on the task, as on a new one. */
SEC("struct_ops/safe_disable")
void BPF_PROG(safe_disable, struct task_struct *p)
{
	set_vtime(p, 0);
}

/* Without these two the kernel ejects a scheduler when a CPU comes or goes. */
SEC("struct_ops/safe_cpu_online")
void BPF_PROG(safe_cpu_online, s32 cpu)
{
}

SEC("struct_ops/safe_cpu_offline")
void BPF_PROG(safe_cpu_offline, s32 cpu)
{
}

/* A task of a higher class takes the CPU: what waits in its local queue may run elsewhere. */
SEC("struct_ops/safe_cpu_release")
void BPF_PROG(safe_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (bpf_ksym_exists(scx_bpf_reenqueue_local))
		scx_bpf_reenqueue_local();
}

SEC("struct_ops.s/safe_init")
s32 BPF_PROG(safe_init)
{
	return scx_bpf_create_dsq(ALL_TASKS, NUMA_NO_NODE);
}

SEC("struct_ops/safe_exit")
void BPF_PROG(safe_exit, struct scx_exit_info *info)
{
	exit_record(&exit_info, info);
}

SEC(".struct_ops.link")
struct sched_ext_ops safe_ops = {
	.select_cpu = (void *)safe_select_cpu,
	.enqueue = (void *)safe_enqueue,
	.dispatch = (void *)safe_dispatch,
	.running = (void *)safe_running,
	.stopping = (void *)safe_stopping,
	.enable = (void *)safe_enable,
	.disable = (void *)safe_disable,
	.cpu_online = (void *)safe_cpu_online,
	.cpu_offline = (void *)safe_cpu_offline,
	.cpu_release = (void *)safe_cpu_release,
	.init = (void *)safe_init,
	.exit = (void *)safe_exit,
	/* The loader sets timeout_ms. */
	.flags = SCX_OPS_ENQ_EXITING,
	.name = "consort_safe",
};
