/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Slices: for how long a task may run before it is compared again.
 *
 * Problem  Short slices cost switches, long ones cost timeliness.
 * Rule     max(granularity / runnable, min_slice), times the members that run on the slice of one domain.
 *          Beside reservations no slice is longer than their shortest period / 64, but min_slice: the period trades
 *          how finely a rate is given for switches.
 * Bound    N runnable tasks each run once within max(granularity, N * min_slice).
 * Source   000 equation 2.2 and Figure 2.17; 004 section 2 (what a period is for).
 * Limits   The cut at the next due time is place.h's, which knows the due times.
 */
#ifndef CORE_SLICE_H
#define CORE_SLICE_H

#include "types.h"

static __always_inline u64 slice_ns(u64 granularity_ns, u64 min_slice_ns, u32 nr_runnable,
				    u32 nr_members)
{
	u64 slice = granularity_ns / (nr_runnable ? nr_runnable : 1);

	if (slice < min_slice_ns)
		slice = min_slice_ns;
	return slice * (nr_members ? nr_members : 1);
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

#endif
