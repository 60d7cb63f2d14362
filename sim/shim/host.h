/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Between the scheduler, compiled for the host, and the simulator's model of the kernel: what each gives the other.
 * The Rust side is generated from this header.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "vmlinux.h"
#include "consort_abi.h"
#include "interface.h"

/* What the model gives. Pointers to functions, since a changed scheduler may be loaded at run time. */
struct sim_host {
	const u64 *now_ns;
	const u32 *this_cpu;
	struct task_struct *(*current_task)(void);
	/* Something follows that other CPUs can see, or that depends on them: they may go first. */
	void (*sync)(void);
	/* The CPU waits in a loop. */
	void (*spin)(void);
	struct task_struct *(*task_from_pid)(s32 pid);
	void (*task_release)(struct task_struct *p);
	/* The first living task from this number of the model's on; NULL: there is none. */
	struct task_struct *(*next_task)(u32 from);
	void (*dsq_insert)(struct task_struct *p, u64 dsq, u64 slice, u64 flags);
	void (*task_set_slice)(struct task_struct *p, u64 slice);
	void (*kick_cpu)(s32 cpu, u64 flags);
	s32 (*task_cpu)(const struct task_struct *p);
	bool (*task_running)(const struct task_struct *p);
	s32 (*select_cpu_dfl)(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
	s32 (*pick_idle_cpu)(const struct cpumask *allowed, u64 flags);
	u32 (*reenqueue_local)(void);
	const struct rq *(*run_queue)(u32 cpu);
	void (*error)(const char *text);
	void (*dump)(const char *line);
	void *(*arena_alloc)(u32 pages);
	void (*arena_free)(void *at, u32 pages);
	void (*irq_save)(void);
	void (*irq_restore)(void);
	/* Starts, or restarts, the timer of this number: absolute time. False: there is no memory for that. */
	bool (*timer_start)(u32 number, u64 at_ns, bool pinned);
	/* Whether a hash map is to have no memory for one more entry, this time. */
	bool (*update_fails)(void);
	/* A function of a user's own, by number, is asked about a record: there may be none. */
	void (*answer)(u32 user, u64 group, struct consort_df_record *record); /* by its birth */
};

struct sim_map_shape {
	u32 type; /* enum bpf_map_type */
	u32 entries;
	u32 key_bytes;
	u32 value_bytes;
};

void *sim_map_lookup(void *map, struct sim_map_shape shape, const void *key);
long sim_map_update(void *map, struct sim_map_shape shape, const void *key, const void *value,
		    u64 flags);
long sim_map_delete(void *map, struct sim_map_shape shape, const void *key);
void *sim_task_storage_get(void *map, u32 value_bytes, const struct task_struct *p, u64 flags);

/* A broken rule of the scheduler's own state. */
struct sim_finding {
	char rule[32];
	char detail[224];
};

/* A task that the scheduler is responsible for, and whether the kernel has given it to it, to wait. */
struct sim_task_ref {
	struct task_struct *task;
	u64 had_ns; /* CPU time, up to now */
	u64 waits_ns; /* for a CPU, since anything was changed about it; 0: does not */
	u64 nr_ended; /* tasks that have ended meanwhile */
	u64 held; /* which time that it was given to the scheduler this is; 0: it was not */
	bool is_held;
	/*
	 * The kernel has it, and the scheduler cannot know: another CPU has dispatched it while it was being given, or it
	 * has come to a CPU that is on its way offline or back.
	 */
	bool was_overtaken;
};

/* Which rules hold in a run, and with which allowances. */
struct sim_bounds {
	bool weights_stay; /* nobody's weight, group or slice changes */
	bool cpus_stay; /* no CPU goes, and no higher class takes one */
	bool seats_stay; /* nobody lends its own to who holds a lock */
	u64 late_ns; /* how late whoever runs may be compared */
};

/* What the scheduler knows of a task. */
struct sim_task_view {
	bool known;
	bool active;
	bool waits;
	bool member;
	bool demoted;
	u32 place;
	u64 vtime;
	u64 weight;
};

/* What the scheduler gives. */
struct sim_scheduler {
	struct sched_ext_ops *ops;
	struct consort_topology *topology;
	struct consort_tunables *tunables;
	struct consort_counters *counters; /* of each CPU */
	struct consort_exit_info *exit_info;
	const struct consort_reasons *reasons; /* by CPU */
	bool *one_cpu;
	bool *is_virtual;
	bool *use_timers;
	u32 cpus_max;
	u32 shards_max;
	u32 counters_per_cpu;

	/* The scheduler's own programs: what they return says nothing, their arguments do. */
	int (*init_arena)(struct consort_init_args *args);
	void (*domain_create)(struct consort_domain_args *args);
	int (*domain_destroy)(struct consort_domain_args *args);
	int (*join)(struct consort_join_args *args);
	int (*leave)(struct consort_leave_args *args);
	/* Takes over `class_table`. */
	int (*classes)(struct consort_classes_args *args);
	struct consort_class_table *class_table;
	int (*reservation_create)(struct consort_reservation_args *args);
	int (*reservation_change)(struct consort_reservation_args *args);
	int (*reservation_add)(struct consort_reservation_args *args);
	int (*reservation_end)(struct consort_reservation_args *args);
	int (*reservation_usage)(struct consort_reservation_args *args);

	int (*plan)(struct consort_plan_args *args);
	struct consort_interval *plan_part; /* of CONSORT_PLAN_PART */
	int (*role)(struct consort_role_args *args);
	int (*user)(struct consort_user_args *args);

	void (*timer_fire)(u32 number);
	/* Puts a program's page into the map of clients; NULL takes it out. */
	void (*set_page)(u32 client, struct consort_mapping *page);
	/* All state as it was when the program was loaded; `has_new` says which kernel's functions exist. */
	void (*reset)(const struct sim_host *host, bool concurrent, bool has_new);
	/* To be called before each callback. Returns whether a loop of the last one had to be ended. */
	bool (*begin)(void);
	/* Looks for broken rules; true if one was found. Nobody may be inside a callback. */
	bool (*check)(const struct sim_task_ref *tasks, u32 nr_tasks, struct sim_bounds bounds,
		      struct sim_finding *finding);
	/* After init_arena: where virtual time begins. */
	void (*begin_vtime)(u64 vtime);
	struct sim_task_view (*view)(const struct task_struct *p);
	/* Domains and cgroups' groups that exist beside the root. */
	u32 (*sets_left)(void);
};

extern const struct sim_host *sim_host;
/* Not by two threads at once: the first call keeps what the variables are when loaded. */
const struct sim_scheduler *sim_open(void);

#endif
