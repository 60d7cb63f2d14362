/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel gives: types, kfuncs, flags, and the differences between kernel versions. */
#ifndef CONSORT_KERNEL_H
#define CONSORT_KERNEL_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef __arena
#define __arena __attribute__((address_space(1)))
#endif

/*
 * A function that is compiled, and verified, once and not at each call. The kernel checks it for any arguments of its
 * types, which keeps the number of paths below what Linux 6.18 is willing to follow.
 */
#define core_fn __attribute__((noinline)) __weak int
/* What the daemon calls, through the one program for all of it (calls.h). */
#define call_fn static __always_inline int
#define in_arena __attribute__((btf_decl_tag("arg:arena")))

/* A loop that uses this needs no bound that the verifier can see: the kernel keeps one at run time. */
#ifndef can_loop
/* clang-format off */
#define can_loop                                                   \
	({                                                         \
		__label__ out, in;                                 \
		bool more = true;                                  \
		asm volatile goto("may_goto %l[out]" ::::out);     \
		goto in;                                           \
	out:                                                       \
		more = false;                                      \
	in:;                                                       \
		more;                                              \
	})
/* clang-format on */
#endif

/* 0, which the verifier does not know. */
volatile u32 hidden_zero SEC(".bss");

/*
 * A number of which the verifier forgets the value. It goes through a loop once if it does not know the counter, and as many
 * times as it takes if it does.
 */
static inline u32 hidden(u32 number)
{
	return number + hidden_zero;
}

/* The copy is on the stack: of a function of its own, for callers have no room for it. */
static __attribute__((noinline)) u64 copy_of_word(const struct cpumask *mask, u32 i)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), &mask->bits[i]);
	return word;
}

/* A word of a CPU mask. The verifier lets a program read a constant one alone; the others are copied. */
static inline u64 mask_word(const struct cpumask *mask, u32 i)
{
	return i ? copy_of_word(mask, i) : mask->bits[0];
}

/* Values differ between kernel versions; the loader fills in the running kernel's. */
#define ENQ(name) bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_##name)
#define DEQ(name) bpf_core_enum_value(enum scx_deq_flags, SCX_DEQ_##name)
#define WAKE(name) bpf_core_enum_value(enum scx_wake_flags, SCX_WAKE_##name)
#define KICK(name) bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_##name)
#define TASK_FLAG(name) bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_##name)
#define DSQ(name) bpf_core_enum_value(enum scx_dsq_id_flags, SCX_DSQ_##name)

#define PF_EXITING 0x4 /* in task_struct.flags; a macro, of which BTF does not know */
/* Numbers that the kernel has as macros, of which BTF does not know, too. */
#define TASK_UNINTERRUPTIBLE 2 /* in task_struct.__state */
#define CLOCK_MONOTONIC 1
#define CLOCK_TICK_NS \
	10000000 /* of the times that /proc tells: USER_HZ is 100 on every architecture */
#define ENOENT 2
#define ESRCH 3
#define EAGAIN 11
#define ENOMEM 12
#define EBUSY 16
#define EEXIST 17
#define EINVAL 22
#define ENOSPC 28
#define EOPNOTSUPP 95
#define SCHED_IDLE 5
#define NUMA_NO_NODE (-1)

void __arena *bpf_arena_alloc_pages(void *map, void __arena *addr, u32 pages, int node,
				    u64 flags) __ksym;
void bpf_arena_free_pages(void *map, void __arena *addr, u32 pages) __ksym;
void bpf_local_irq_save(unsigned long *flags) __ksym;
void bpf_local_irq_restore(unsigned long *flags) __ksym;
int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;

void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, u32 flags) __ksym;
struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags) __ksym __weak;
bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq, u64 slice, u64 flags) __ksym __weak;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym __weak;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
bool scx_bpf_task_running(const struct task_struct *p) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			   bool *is_idle) __ksym;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
const struct cpumask *scx_bpf_get_possible_cpumask(void) __ksym;
const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
void scx_bpf_put_cpumask(const struct cpumask *mask) __ksym;
u32 scx_bpf_reenqueue_local(void) __ksym __weak;
extern const struct rq runqueues __ksym;
void scx_bpf_exit_bstr(s64 code, char *fmt, unsigned long long *data, u32 data_len) __ksym;
void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data_len) __ksym;

void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data_len) __ksym __weak;

/* A line of the dump that the kernel makes when it ejects a scheduler, or for SysRq-D. */
#define scx_dump(fmt, args...)                                       \
	({                                                           \
		static char ___fmt[] = fmt "\n";                     \
		unsigned long long ___data[] = { args };             \
		scx_bpf_dump_bstr(___fmt, ___data, sizeof(___data)); \
	})

/* The scheduler leaves, which is no fault; the code tells the daemon why. */
#define scx_leave(code, fmt, args...)                                      \
	({                                                                 \
		static char ___fmt[] = fmt;                                \
		unsigned long long ___data[] = { args };                   \
		scx_bpf_exit_bstr(code, ___fmt, ___data, sizeof(___data)); \
	})

/* Ejects the scheduler; every task is back under the stock one. For broken invariants only. */
#define scx_error(fmt, args...)                                       \
	({                                                            \
		static char ___fmt[] = fmt;                           \
		unsigned long long ___data[] = { args };              \
		scx_bpf_error_bstr(___fmt, ___data, sizeof(___data)); \
	})

static inline void insert_task(struct task_struct *p, u64 dsq, u64 slice_ns, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2))
		scx_bpf_dsq_insert___v2(p, dsq, slice_ns, flags);
	else
		scx_bpf_dsq_insert(p, dsq, slice_ns, flags);
}

static inline void set_slice(struct task_struct *p, u64 slice_ns)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice_ns);
	else
		p->scx.slice = slice_ns;
}

static inline bool is_queued(const struct task_struct *p)
{
	return p->scx.flags & TASK_FLAG(QUEUED);
}

/* Whether a task of a class above ours wants the CPU. */
static inline bool higher_class_waits(u32 cpu)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	return rq && rq->nr_running != rq->scx.nr_running;
}

/*
 * Whether a CPU that asks for a task will run one of a higher class: Linux 6.18 asks all the same, and would not tell us that
 * the CPU was taken. Later ones, which have the function here, ask beside a higher class only where ours is to have its part
 * (its deadline server), and give it none from then on if it gets nobody.
 */
static inline bool asks_in_vain(u32 cpu)
{
	return !bpf_ksym_exists(scx_bpf_task_set_slice) && higher_class_waits(cpu);
}

/* Whether a CPU idles though tasks are on it. */
static inline bool idles_beside_work(u32 cpu)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	return rq && rq->nr_running && rq->curr == rq->idle;
}

/* Whether a CPU that goes offline has nothing left to run, and has not seen it. */
static inline bool offline_waits(u32 cpu)
{
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

	return rq && bpf_core_field_exists(rq->hotplug_wait) && !rq->nr_running &&
	       rq->hotplug_wait.task;
}

#endif
