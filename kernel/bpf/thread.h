/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads: the kernel's task_struct of each of our tasks.
 *
 * Problem  Only a pointer that the kernel trusts can be given back to it, and the arena holds none. A search by the thread's
 *          number is as dear as the rest of a choice.
 * Rule     A map holds a reference to the task_struct of each task that is ours, by the number of our state of it: from when
 *          the task becomes ours until it is ours no more. The kernel lets it be read like any other memory.
 * Limits   Tasks beyond THREADS_MAX are searched for.
 */
#ifndef CONSORT_THREAD_H
#define CONSORT_THREAD_H

#include "state.h"

/* Eight bytes each, taken at once. */
#ifndef THREADS_MAX
#define THREADS_MAX 16384
#endif

struct thread {
	struct task_struct __kptr *p;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS_MAX);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

static inline struct thread *thread_of(const struct task __arena *t)
{
	u32 number = t->number;

	return bpf_map_lookup_elem(&threads, &number);
}

/* The task is ours now. */
static inline void thread_keep(const struct task __arena *t, struct task_struct *p)
{
	struct thread *at = thread_of(t);
	struct task_struct *held = at ? bpf_task_acquire(p) : NULL, *old;

	if (!held)
		return;
	old = bpf_kptr_xchg(&at->p, held);
	if (old)
		bpf_task_release(old);
}

/* The task is ours no more, and will not be chosen again. */
static inline void thread_forget(const struct task __arena *t)
{
	struct thread *at = thread_of(t);
	struct task_struct *old = at ? bpf_kptr_xchg(&at->p, NULL) : NULL;

	if (old)
		bpf_task_release(old);
}

#endif
