/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Away: tasks that another class schedules for a while.
 *
 * Problem  A thread becomes real-time, by itself or because a real-time one waits for its lock, and is ours again later.
 *          The kernel takes it from us meanwhile as it takes one that ends, and forgets our mark on it.
 * Rule     What it has been promised or has agreed to (its reservation, its domain) stays with it. It is in no queue, and
 *          is charged for nothing, until it comes back, where it is then.
 * Limits   Where the kernel has no memory left to keep it, it is forgotten.
 */
#ifndef CONSORT_AWAY_H
#define CONSORT_AWAY_H

#include "state.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64); /* the thread's struct task, or one that was */
} away SEC(".maps");

/* Our state of a thread that is away; NULL: none is kept. */
static inline struct task __arena *find_away(struct task_struct *p)
{
	u64 *at = bpf_task_storage_get(&away, p, 0, 0);
	struct task __arena *t = at ? (struct task __arena *)*at : NULL;

	return t && t->away == (u64)p ? t : NULL;
}

/* Whether it is one of ours at the moment, or is away. */
static inline struct task __arena *find_anywhere(struct task_struct *p)
{
	return find_task(p) ?: find_away(p);
}

/* The same of one that has been found, with its lock held. */
static inline bool belongs_to(const struct task __arena *t, const struct task_struct *p)
{
	return t->kernel_task == (u64)p || t->away == (u64)p;
}

/* Sees to it that the thread's state will be found while it is away. False: out of memory. */
static inline bool keep_for(struct task_struct *p, struct task __arena *t)
{
	u64 *at = bpf_task_storage_get(&away, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (at)
		*at = (u64)t;
	return at;
}

#endif
