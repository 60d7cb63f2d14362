/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the next daemon asks of a scheduler that it takes over from another one.
 *
 * Problem  A daemon is exchanged, or dies, while the scheduler stays in charge. What that daemon knew goes with it.
 * Rule     The scheduler is the book: it is asked, thread by thread, whether one is a member, and through which slot. What it
 *          has no use for itself lies beside it, in maps that daemons alone write and read.
 */
#ifndef CONSORT_HANDOVER_H
#define CONSORT_HANDOVER_H

#include "join.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DOMAINS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* the domain's number */
	__type(value, struct consort_domain_label);
} domain_labels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RESERVATIONS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* the reservation's number here */
	__type(value, u32); /* and in the daemon's journal */
} reservation_labels SEC(".maps");

/* The daemon is exchanged together with the scheduler: the next one goes on with the same pages. */
bool keeps_pages;

/* The clients that are still connected, a bit for each number. Written by the daemon before it calls consort_leave_others. */
u64 connected[CLIENTS_MAX / 64];

/* The daemon's own: whose message it has taken and maybe not answered. */
u32 answering;

static inline bool is_connected(u32 client)
{
	u32 word = client / 64;

	/* Keeps the compiler from proving the mask needless: the verifier cannot follow its proof. */
	asm volatile("" : "+r"(word));
	return connected[word & (CLIENTS_MAX / 64 - 1)] >> client % 64 & 1;
}

SEC("syscall")
int consort_member_tell(struct consort_join_args *args)
{
	USES_ARENA();
	struct held_task h;

	args->error = task_hold(&h, args->tid, args->start_ticks, true);
	if (args->error)
		return 0;
	if (h.t->set) {
		args->domain = h.t->set->id;
		args->client = h.t->client;
		args->slot = h.t->slot;
	} else {
		args->error = ENOENT;
	}
	task_let_go(&h);
	return 0;
}

static inline void leave_if_unconnected(struct task __arena *t, const struct task_struct *p)
{
	struct lock __arena *l;
	unsigned long flags;

	bpf_local_irq_save(&flags);
	l = task_lock(t);
	if (belongs_to(t, p) && t->set && !is_connected(t->client)) {
		ride_leave(t);
		leave(t, p);
	}
	lock_release(l);
	if (t->blocked)
		lend_on(t, t);
	bpf_local_irq_restore(&flags);
}

call_fn consort_leave_others(struct consort_init_args *args)
{
	struct task_struct *p;

	USES_ARENA();
	bpf_rcu_read_lock();
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS)
	{
		struct task __arena *t = find_anywhere(p);

		if (t && t->set && !is_connected(t->client))
			leave_if_unconnected(t, p);
	}
	bpf_rcu_read_unlock();
	args->error = 0;
	return 0;
}

SEC("syscall")
int consort_keep_pages(struct consort_init_args *args)
{
	keeps_pages = true;
	args->error = 0;
	return 0;
}

#endif
