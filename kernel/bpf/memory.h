/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of the arena: whole pages for sets, a free list for tasks.
 *
 * Pages can only be had where the kernel may sleep: when a task, a cgroup or a domain is made. Nothing is allocated
 * in a scheduling decision.
 */
#ifndef CONSORT_MEMORY_H
#define CONSORT_MEMORY_H

#include "state.h"

#define ARENA_PAGE 4096

struct task_pool {
	struct lock lock;
	struct task __arena *free;
	s32 nr_reserved; /* tasks that the kernel has announced */
	s32 nr_all;
};

struct task_pool __arena *task_pool;

static inline u32 pages_of(u64 bytes)
{
	return (bytes + ARENA_PAGE - 1) / ARENA_PAGE;
}

static inline void __arena *alloc_pages(u64 bytes)
{
	return bpf_arena_alloc_pages(&arena, NULL, pages_of(bytes), NUMA_NO_NODE, 0);
}

static inline void free_pages(void __arena *at, u64 bytes)
{
	bpf_arena_free_pages(&arena, at, pages_of(bytes));
}

static inline u64 group_set_bytes(void)
{
	return sizeof(struct group_set) + nr_places() * sizeof(struct group) +
	       topology.nr_shards * sizeof(struct held);
}

static inline u64 domain_set_bytes(void)
{
	return sizeof(struct domain_set) + nr_places() * sizeof(struct domain);
}

static inline u64 plan_bytes(u32 nr_intervals)
{
	return sizeof(struct plan) + nr_intervals * sizeof(struct interval);
}

static inline struct task __arena *task_pool_pop(void)
{
	struct task __arena *t;
	unsigned long flags;

	bpf_local_irq_save(&flags);
	lock_take(&task_pool->lock);
	t = task_pool->free;
	if (t)
		task_pool->free = t->next_free;
	lock_release(&task_pool->lock);
	bpf_local_irq_restore(&flags);
	return t;
}

static inline void task_pool_push(struct task __arena *t)
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	lock_take(&task_pool->lock);
	t->next_free = task_pool->free;
	task_pool->free = t;
	lock_release(&task_pool->lock);
	bpf_local_irq_restore(&flags);
}

/*
 * Sees to it that one more task can be had where the kernel may not sleep. May sleep itself. False: out of memory.
 */
static inline bool task_pool_reserve(void)
{
	struct task __arena *page;

	if (__sync_fetch_and_add(&task_pool->nr_reserved, 1) < (s32)task_pool->nr_all)
		return true;
	page = alloc_pages(ARENA_PAGE);
	if (!page) {
		__sync_fetch_and_add(&task_pool->nr_reserved, -1);
		return false;
	}
	for (u32 i = 0; i < ARENA_PAGE / sizeof(struct task) && can_loop; i++) {
		page[i].member.spare = &page[i].brought;
		task_pool_push(page + i);
	}
	__sync_fetch_and_add(&task_pool->nr_all, ARENA_PAGE / sizeof(struct task));
	return true;
}

static inline void task_pool_unreserve(void)
{
	__sync_fetch_and_add(&task_pool->nr_reserved, -1);
}

#endif
