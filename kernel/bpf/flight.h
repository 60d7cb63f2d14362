/* SPDX-License-Identifier: GPL-2.0 */
/*
 * In flight: what a CPU's running task is about to have, and is not charged for yet.
 *
 * Problem  A task is charged when its CPU next chooses. Until then every other CPU that chooses finds the same account
 *          behind: all of them serve it at a time, then none does for long. A domain's seat is found behind, too, and its
 *          members run at a time, whatever each of them weighs.
 * Rule     From when a task begins to run until it is charged, the accounts above it, and the seat that it runs in, are compared
 *          as if it had had its slice.
 * Bound    What is in flight in an account or a seat is a slice for each CPU that runs a task below it.
 * Source   the stock scheduler counts what runs in each of its queues; here one queue has several CPUs.
 * Limits   A slice that ends early, or is prolonged, is in flight as a whole until its CPU chooses.
 *
 * Functions here are called with the shard's lock held, but where they say otherwise.
 */
#ifndef CONSORT_FLIGHT_H
#define CONSORT_FLIGHT_H

#include "state.h"

/* What is in flight in a domain's seat changes. */
static __always_inline void seat_fly(struct seat __arena *s, u32 flight)
{
	struct group __arena *g = s->node.parent;

	s->flight = flight;
	if (s->node.ready.queued && g->node.kind == NODE_FAIR)
		fair_follow(g, &s->node);
}

/* The CPU's running task is charged, or does not run any more. */
core_fn flight_end(struct consort_cpu __arena *c in_arena)
{
	struct seat __arena *s = c->flight_seat;
	u32 flight = c->flight_ns >> FLIGHT_SHIFT;

	if (!c->flight_ns)
		return 0;
	/* It may have become another account's meanwhile, in another shard: then nothing is in flight there. */
	if (s && s->node.parent == c->flight_in)
		seat_fly(s, s->flight - (s->flight < flight ? s->flight : flight));
	tree_fly(c->flight_in, -c->flight_ns);
	c->flight_ns = 0;
	return 0;
}

/* A task begins to run in the seat `pays`, its own or its domain's, for `ns` as far as is known. */
core_fn flight_begin(struct consort_cpu __arena *c in_arena,
		     struct tree_node __arena *pays in_arena, u64 ns)
{
	struct seat __arena *s = pays->kind == NODE_SEAT ? seat_of_node(pays) : NULL;
	struct group __arena *g = pays->parent;

	flight_end(c);
	if (!g || (!g->level && !s))
		return 0;
	if (s)
		seat_fly(s, s->flight + (u32)(ns >> FLIGHT_SHIFT));
	c->flight_seat = s;
	c->flight_in = g;
	c->flight_ns = ns;
	tree_fly(g, ns);
	return 0;
}

/* Before a set of groups is freed: others may run in a seat of it that they were lent. Takes the locks itself. */
core_fn set_end_flights(struct group_set __arena *set in_arena)
{
	unsigned long flags;

	for (u32 cpu = hidden(0); !one_cpu && cpu < topology.nr_cpus && can_loop;
	     cpu = hidden(cpu + 1)) {
		struct consort_cpu __arena *c = cpu_at(cpu);
		struct shard __arena *s = shard_at(c->shard);

		bpf_local_irq_save(&flags);
		lock_take(&s->lock);
		if (c->flight_in >= set->groups && c->flight_in < set->groups + nr_places())
			flight_end(c);
		lock_release(&s->lock);
		bpf_local_irq_restore(&flags);
	}
	return 0;
}

#endif
