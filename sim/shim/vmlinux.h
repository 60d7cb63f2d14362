/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel's types as far as the scheduler looks at them. The simulator's model keeps them up to date. Values of
 * enums are the model's own: the scheduler asks for them by name.
 */
#ifndef SIM_VMLINUX_H
#define SIM_VMLINUX_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned long long u64;
typedef signed long long s64;
typedef unsigned int u32;
typedef signed int s32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef u64 __u64;
typedef s64 __s64;
typedef u32 __u32;
typedef s32 __s32;
typedef u16 __u16;
typedef u8 __u8;

#define SIM_CPUS_MAX 1024

struct cpumask {
	unsigned long bits[SIM_CPUS_MAX / 64];
};

struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
};

struct task_group {
	struct cgroup_subsys_state css;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
};

enum scx_ent_flags {
	SCX_TASK_QUEUED = 1 << 0,
};

struct sched_ext_entity {
	u32 flags; /* enum scx_ent_flags */
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct rb_node {
	unsigned long __rb_parent_color; /* trees are not modelled, but for who is first */
};

struct rb_root_cached {
	struct rb_node *rb_leftmost;
};

struct rt_waiter_node {
	struct rb_node entry;
};

/* Bit 0 of the owner's address: somebody waits. */
struct rt_mutex_base {
	struct rb_root_cached waiters;
	struct task_struct *owner;
};

struct rt_mutex_waiter {
	struct rt_waiter_node tree; /* of those that wait for the lock */
	struct rt_waiter_node pi_tree; /* of those that are first for one of the owner's locks */
	struct task_struct *task;
	struct rt_mutex_base *lock;
};

/* Maps of memory are not modelled: tasks have none. */
typedef struct {
	s64 counter;
} atomic_long_t;

struct rw_semaphore {
	atomic_long_t count, owner;
};

struct mm_struct {
	struct rw_semaphore mmap_lock;
};

#define PF_EXITING 0x4
#define EXIT_ZOMBIE 0x20

struct bpf_res_spin_lock {
	u32 val;
};

struct task_struct {
	unsigned int __state; /* 0: no sleep is said to be uninterruptible */
	u32 flags;
	int exit_state;
	struct mm_struct *mm;
	s32 pid;
	s32 tgid;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	unsigned short migration_disabled;
	int static_prio;
	unsigned int policy; /* SCHED_IDLE or another one */
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct task_group *sched_task_group;
	struct task_struct *real_parent;
	struct rb_root_cached pi_waiters;
	struct task_struct *pi_top_task; /* by whom its class was last chosen: not set by taking a lock */
	struct rt_mutex_waiter *pi_blocked_on;
	u64 start_boottime;
	char comm[16];
	u32 sim_task; /* the model's number of the task: its pid may change */
};

struct bpf_iter_task {
	u32 next; /* the model's number of the task that is looked at next */
};

#define BPF_TASK_ITER_ALL_THREADS 1

struct scx_rq {
	u32 nr_running;
};

struct rcuwait {
	struct task_struct *task;
};

struct rq {
	u32 nr_running; /* of all classes */
	/* Never the same, NULL where nobody runs: the scheduler's help for the kernel is not modelled. */
	const struct task_struct *curr, *idle;
	struct rcuwait hotplug_wait; /* never: CPUs go offline here as soon as they are empty */
	struct scx_rq scx;
};

/* The lower 32 bits are the core's own, given on; the scheduler tells by them what happens to a running task. */
enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 0x1,
	SCX_ENQ_RESTORE = 0x2,
	SCX_ENQ_NOCLOCK = 0x8,
	SCX_ENQ_HEAD = 0x10,
	SCX_ENQ_MIGRATED = 0x40,
	SCX_ENQ_INITIAL = 0x80,
	SCX_ENQ_CPU_SELECTED = 0x400,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_REENQ = 1ULL << 40,
	SCX_ENQ_LAST = 1ULL << 41,
};

enum scx_deq_flags {
	SCX_DEQ_SLEEP = 1 << 0,
	SCX_DEQ_SAVE = 1 << 1,
};

enum scx_kick_flags {
	SCX_KICK_IDLE = 1 << 0,
	SCX_KICK_PREEMPT = 1 << 1,
	SCX_KICK_WAIT = 1 << 2,
};

enum scx_wake_flags {
	SCX_WAKE_FORK = 1 << 2,
	SCX_WAKE_TTWU = 1 << 3,
	SCX_WAKE_SYNC = 1 << 4,
};

enum scx_dsq_id_flags {
	SCX_DSQ_GLOBAL = 1,
	SCX_DSQ_LOCAL = 2,
};
#define SCX_DSQ_LOCAL_ON (1ULL << 62)

enum scx_ops_flags {
	SCX_OPS_ENQ_LAST = 1 << 1,
	SCX_OPS_ENQ_EXITING = 1 << 2,
	SCX_OPS_SWITCH_PARTIAL = 1 << 3,
	SCX_OPS_ENQ_MIGRATION_DISABLED = 1 << 4,
	SCX_OPS_ALLOW_QUEUED_WAKEUP = 1 << 5,
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
	bool sched_idle;
};

struct scx_cpu_release_args {
	u32 reason;
	struct task_struct *task;
};

struct scx_cpu_acquire_args {
	u32 reserved;
};

struct scx_exit_info {
	int kind;
	s64 exit_code;
	const char *reason;
	const char *msg;
	const char *dump;
};

struct scx_dump_ctx {
	u64 at_ns;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgrp, bool idle);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*dump)(struct scx_dump_ctx *ctx);
	void (*dump_cpu)(struct scx_dump_ctx *ctx, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

#endif
