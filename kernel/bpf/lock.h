/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks in the arena.
 *
 * Problem  The kernel's BPF locks forbid calls of global functions while held, and cost as much as a switch.
 * Rule     Ticket lock: take the next number, wait until it is served. Holders run with interrupts off: the
 *          scheduler's callbacks do anyway, everybody else saves and restores them.
 *          In a virtual machine whoever comes first takes it: served in order, a lock goes to a virtual CPU that has
 *          none of the host's, and as all others wait for it with the host's CPUs, one turn of each of them brings one
 *          decision. Four virtual CPUs on a busy host stood still like that until the kernel ejected the scheduler.
 *          There one CPU at a time waits for the lock itself, and all others for that one, at a gate: a lock of the kernel's,
 *          for which they wait with pauses. A virtual CPU that pauses lets another one have the host's CPU; one that reads a
 *          word again and again, and BPF has no pause of its own, keeps it from the holder.
 * Bound    Waiters are served in order, but in a virtual machine. A wait of 2^28 looks, seconds that is, ejects the
 *          scheduler.
 * Source   the kernel's own queued spin lock does likewise beside a hypervisor (virt_spin_lock).
 * Limits   A lock is never taken while another one is held; no order needs to be kept.
 */
#ifndef CONSORT_LOCK_H
#define CONSORT_LOCK_H

#include "kernel.h"

struct lock {
	u32 next; /* where locks are not served in order: 1 while it is held */
	u32 serving; /* where locks are not served in order: less by one for each that waits, so that lock_queue() counts them */
	u32 number; /* of its gate */
};

#define GATES 16 /* a power of two */

struct gate {
	struct bpf_res_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GATES);
	__type(key, u32);
	__type(value, struct gate);
} gates SEC(".maps");

const volatile bool one_cpu; /* set by the loader: nobody to wait for */
const volatile bool is_virtual; /* set by the loader: locks are not served in order */

static inline bool lock_serves(struct lock __arena *l, u32 ticket)
{
	return *(volatile u32 __arena *)&l->serving == ticket;
}

static inline bool lock_catch(struct lock __arena *l)
{
	return !*(volatile u32 __arena *)&l->next && !__sync_lock_test_and_set(&l->next, 1);
}

/*
 * Looks at the lock until it has it. Not can_loop, which gives up after a quarter of a second: a virtual CPU that holds the lock
 * may itself wait that long for a CPU.
 */
static __always_inline bool lock_look(struct lock __arena *l, u32 ticket)
{
	int turn;

	bpf_for(turn, 0, 1 << 20)
	{
		if (is_virtual ? lock_catch(l) : lock_serves(l, ticket))
			return true;
	}
	return false;
}

core_fn lock_wait(struct lock __arena *l in_arena, u32 ticket)
{
	u32 number = l->number % GATES;
	struct gate *gate = is_virtual ? bpf_map_lookup_elem(&gates, &number) : NULL;
	bool has_it = false;
	int round;

	if (is_virtual)
		__sync_fetch_and_add(&l->serving, -1);
	bpf_for(round, 0, 256)
	{
		/* The kernel gives up where it finds a wait too long. */
		if (gate && !bpf_res_spin_lock(&gate->lock)) {
			has_it = lock_look(l, ticket);
			bpf_res_spin_unlock(&gate->lock);
		} else {
			has_it = lock_look(l, ticket);
		}
		if (has_it)
			break;
	}
	if (is_virtual)
		__sync_fetch_and_add(&l->serving, 1);
	return has_it;
}

static inline void lock_take(struct lock __arena *l)
{
	u32 ticket;

	if (one_cpu)
		return;
	ticket = is_virtual ? 0 : __sync_fetch_and_add(&l->next, 1);
	if (!(is_virtual ? lock_catch(l) : lock_serves(l, ticket)) && !lock_wait(l, ticket))
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
	if (is_virtual)
		__sync_fetch_and_add(&l->next, -1);
	else
		__sync_fetch_and_add(&l->serving, 1);
}

#endif
