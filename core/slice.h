/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Slices: for how long a task may run before it is compared again.
 *
 * Problem  Short slices cost switches, long ones cost timeliness.
 * Rule     max(granularity / runnable, min_slice), times the members that run on the slice of one domain, up to
 *          MEMBERS_ROUNDS times the granularity, and divided by the CPUs on which they may run at a time; beside reservations it
 *          is one. A member that begins with an expired due event may have borrowed for it, and is compared after min_slice.
 *          The first turn of a task that has just woken may be longer: half the granularity, as far as its share repays that
 *          within FIRST_ROUNDS times the granularity. Beside reservations no slice is longer than their shortest
 *          period / 64, but min_slice: the period trades how finely a rate is given for switches. First turns there are no
 *          longer than a part of that period on several CPUs. On one there are none: a reservation waits for all of them there.
 *          On several CPUs one that sends messages goes on for up to PROTECTED_SLICES_MAX times min_slice, if that is longer.
 * Bound    N runnable tasks each run once within max(granularity, N * min_slice), or N protected slices if all send messages. N
 *          first turns last FIRST_ROUNDS times the granularity at most; as long does a task that has had one wait for its next
 *          slice. Nobody's share is another one by that: a turn is charged like any run.
 * Source   000 equation 2.2 and Figure 2.17; 004 section 2 (what a period is for). That jobs one after the other are done sooner
 *          than all of them in turns is known from batch systems; the stock scheduler protects slices, too, of 2.8 ms on eight
 *          CPUs or more.
 * Limits   The cut at the next due time is place.h's, which knows the due times.
 */
#ifndef CORE_SLICE_H
#define CORE_SLICE_H

#include "types.h"

static __always_inline u64 slice_ns(u64 granularity_ns, u64 min_slice_ns, u32 nr_runnable)
{
	u64 slice = granularity_ns / (nr_runnable ? nr_runnable : 1);

	return slice < min_slice_ns ? min_slice_ns : slice;
}

/*
 * For how long a task goes on that sends messages, where so many CPUs choose from one place: three shortest slices on four, four on
 * eight or more, as the stock scheduler's slices grow. Interrupted sooner, it would wake each reader for one message.
 */
#define PROTECTED_SLICES_MAX 4

static __always_inline u64 protected_slice_ns(u64 granularity_ns, u64 min_slice_ns, u32 nr_cpus)
{
	u64 slice;
	u32 slices;

	for (slices = 1; nr_cpus > 1 && slices < PROTECTED_SLICES_MAX; slices++)
		nr_cpus /= 2;
	slice = slices * min_slice_ns;
	return slice < granularity_ns ? slice : granularity_ns;
}

/* A task that is in no domain waits for so many granularities at most while a domain of hundreds has its slice. */
#define MEMBERS_ROUNDS 4

/* The slice of a domain where others have `slice`: one for each of its members, in a row, up to `most_ns`. */
static __always_inline u64 members_slice_ns(u64 slice, u32 nr_members, u64 most_ns)
{
	u64 all = slice * (nr_members ? nr_members : 1);

	return all <= most_ns ? all : slice > most_ns ? slice : most_ns;
}

/*
 * How long the first turn of a task may last that has just woken. Most that sleep are done by then. In slices all that wake at a
 * time would be done as late as the last of them, sleep as long, and wake at the same time again.
 */
#define FIRST_ROUNDS 16

static __always_inline u64 first_turn_ns(u64 granularity_ns)
{
	return granularity_ns / 2;
}

/* The same of a task with an average share, however many there are; one with less has a part of that (tree_part_ns). */
static __always_inline u64 first_turn_average_ns(u64 granularity_ns, u32 nr_runnable)
{
	return FIRST_ROUNDS * granularity_ns / (nr_runnable ? nr_runnable : 1);
}

/* Slices in a period: several levels of the tree may each be late by one, and the rate still holds over the period. */
#define SLICES_PER_PERIOD 64

/* What becomes of a slice beside reservations whose shortest period this is; 0: there are none. */
static __always_inline u64 slice_beside_ns(u64 slice, u64 min_slice_ns, u64 period_ns)
{
	u64 most = period_ns / SLICES_PER_PERIOD;

	if (most < min_slice_ns)
		most = min_slice_ns;
	return period_ns && slice > most ? most : slice;
}

/* A reservation may wait for the first turn of a task on its CPU: it has most of its period left to catch up. */
#define FIRST_TURNS_PER_PERIOD 4

/* What becomes of a first turn beside reservations whose shortest period this is, on several CPUs. */
static __always_inline u64 first_turn_beside_ns(u64 turn_ns, u64 period_ns)
{
	u64 most = period_ns / FIRST_TURNS_PER_PERIOD;

	return turn_ns > most ? most : turn_ns;
}

#endif
