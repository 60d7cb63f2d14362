/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks in the arena.
 *
 * Problem  The kernel's BPF locks forbid calls of global functions while held, and cost as much as a switch.
 * Rule     Ticket lock: take the next number, wait until it is served. Holders run with interrupts off: the
 *          scheduler's callbacks do anyway, everybody else saves and restores them.
 * Bound    Waiters are served in order. A wait of 2^28 looks, seconds that is, ejects the scheduler.
 * Limits   A lock is never taken while another one is held; no order needs to be kept.
 */
#ifndef CONSORT_LOCK_H
#define CONSORT_LOCK_H

#include "kernel.h"

struct lock {
	u32 next;
	u32 serving;
};

const volatile bool one_cpu; /* set by the loader: nobody to wait for */

static inline bool lock_serves(struct lock __arena *l, u32 ticket)
{
	return *(volatile u32 __arena *)&l->serving == ticket;
}

/*
 * Not can_loop, which gives up after a quarter of a second: a virtual CPU that holds the lock may itself wait that
 * long for a CPU.
 */
core_fn lock_wait(struct lock __arena *l in_arena, u32 ticket)
{
	int round, turn;

	bpf_for(round, 0, 256)
	{
		bpf_for(turn, 0, 1 << 20)
		{
			if (lock_serves(l, ticket))
				return 1;
		}
	}
	return 0;
}

static inline void lock_take(struct lock __arena *l)
{
	u32 ticket;

	if (one_cpu)
		return;
	ticket = __sync_fetch_and_add(&l->next, 1);
	if (!lock_serves(l, ticket) && !lock_wait(l, ticket))
		scx_error("lock: waited too long for ticket %u", ticket);
}

/* How many hold it or wait for it: a look without it. In this order, as it may be given on in between. */
static inline u32 lock_queue(const struct lock __arena *l)
{
	u32 serving = *(const volatile u32 __arena *)&l->serving;

	return *(const volatile u32 __arena *)&l->next - serving;
}

static inline void lock_release(struct lock __arena *l)
{
	if (one_cpu)
		return;
	__sync_fetch_and_add(&l->serving, 1);
}

#endif
