/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* libbpf's header of this name, for the host: the kernel's helpers are the model's. */
#ifndef SIM_BPF_HELPERS_H
#define SIM_BPF_HELPERS_H

#include "host.h"

#define SEC(name)
#define __ksym
#define __weak
#define __noinline __attribute__((noinline))
#define __arg_ctx
#define __arg_trusted

/* ---- loops ---- */

/* The kernel ends loops that do not end by themselves: a run in which one did has a bug. */
extern long sim_loops_left;
#define can_loop (sim_loops_left-- > 0)

/* The scheduler uses these for waiting: before a second look somebody else must get to run. */
static inline bool sim_spin(bool again)
{
	if (again)
		sim_host->spin();
	return true;
}
#define bpf_for(i, start, end) for ((i) = (start); (i) < (end) && sim_spin((i) != (start)); (i)++)

#define bpf_for_each(type, at, args...)                                                  \
	for (struct bpf_iter_##type sim_it = { bpf_iter_##type##_new(&sim_it, ##args) }; \
	     ((at) = bpf_iter_##type##_next(&sim_it));)

/* ---- what other CPUs can see: any of them may go first ---- */

extern bool sim_concurrent;
static inline void sim_sync(void)
{
	if (__builtin_expect(sim_concurrent, 0))
		sim_host->sync();
}

#define __sync_fetch_and_add(at, value)    \
	({                                 \
		__typeof__(*(at)) sim_old; \
		sim_sync();                \
		sim_old = *(at);           \
		*(at) = sim_old + (value); \
		sim_old;                   \
	})
#define __sync_val_compare_and_swap(at, expected, value) \
	({                                               \
		__typeof__(*(at)) sim_old;               \
		sim_sync();                              \
		sim_old = *(at);                         \
		if (sim_old == (expected))               \
			*(at) = (value);                 \
		sim_old;                                 \
	})
#define __sync_lock_test_and_set(at, value) \
	({                                  \
		__typeof__(*(at)) sim_old;  \
		sim_sync();                 \
		sim_old = *(at);            \
		*(at) = (value);            \
		sim_old;                    \
	})

/* ---- kernel functions: a kernel version has them or not ---- */

extern bool sim_has_scx_bpf_dsq_insert___v2;
extern bool sim_has_scx_bpf_task_set_slice;
extern bool sim_has_scx_bpf_task_set_dsq_vtime;
extern bool sim_has_scx_bpf_reenqueue_local;
#define bpf_ksym_exists(name) (sim_has_##name)

static inline u64 bpf_ktime_get_ns(void)
{
	return *sim_host->now_ns;
}

static inline u32 bpf_get_smp_processor_id(void)
{
	return *sim_host->this_cpu;
}

static inline struct task_struct *bpf_get_current_task_btf(void)
{
	return sim_host->current_task();
}

/* The only variable of each CPU that the scheduler looks at is the run queue. */
#define bpf_per_cpu_ptr(variable, cpu) (sim_host->run_queue(cpu))

long bpf_probe_read_kernel(void *to, u32 size, const void *from);
long bpf_probe_read_kernel_str(void *to, u32 size, const void *from);

/* ---- maps: see maps.c ---- */

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_ARENA = 33,
};
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_F_NO_PREALLOC 1
#define BPF_F_MMAPABLE 1024
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define __uint(name, number) int(*name)[number]
#define __type(name, type) __typeof__(type) *name
/* Inner maps: a pointer to each. */
#define __array(name, type) void **value

/* What an inner map, known only by its address, is taken for. */
struct sim_untyped_map {
	__uint(type, 1);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
};

#define SIM_MAP_TYPE(map)                                                            \
	__builtin_choose_expr(__builtin_types_compatible_p(__typeof__(map), void *), \
			      (struct sim_untyped_map *)0, (map))
#define SIM_ENTRIES(field) (sizeof(*(field)) / sizeof(int))
#define SIM_MAP_SHAPE(map)                                              \
	((struct sim_map_shape){                                        \
		.type = SIM_ENTRIES(SIM_MAP_TYPE(map)->type),           \
		.entries = SIM_ENTRIES(SIM_MAP_TYPE(map)->max_entries), \
		.key_bytes = sizeof(*SIM_MAP_TYPE(map)->key),           \
		.value_bytes = sizeof(*SIM_MAP_TYPE(map)->value),       \
	})

#define bpf_map_lookup_elem(map, key) sim_map_lookup((map), SIM_MAP_SHAPE(map), (key))
#define bpf_map_update_elem(map, key, value, flags) \
	sim_map_update((map), SIM_MAP_SHAPE(map), (key), (value), (flags))
#define bpf_map_delete_elem(map, key) sim_map_delete((map), SIM_MAP_SHAPE(map), (key))
#define bpf_task_storage_get(map, task, initial, flags) \
	sim_task_storage_get((map), sizeof(*(map)->value), (task), (flags))

/* ---- calls of other programs ---- */

/* Here it comes back: with what the program has written. */
#define bpf_tail_call(ctx, map, number) sim_tail_call(number)
void sim_tail_call(u32 number);

/* ---- timers: see timers.c ---- */

struct bpf_timer {
	u64 number; /* from 1 */
	u64 reserved;
};

#define bpf_timer_init(timer, map, clock) sim_timer_init((timer), (map), SIM_MAP_SHAPE(map))
#define bpf_timer_set_callback(timer, callback) sim_timer_set_callback((timer), (void *)(callback))
#define bpf_timer_start(timer, ns, flags) sim_timer_start((timer), (ns), (flags))

long sim_timer_init(struct bpf_timer *timer, void *map, struct sim_map_shape shape);
long sim_timer_set_callback(struct bpf_timer *timer, void *callback);
long sim_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);

#endif
