/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Slices: for how long a task may run before it is compared again.
 *
 * Problem  Short slices cost switches, long ones cost timeliness.
 * Rule     max(granularity / runnable, min_slice), times the members that run on the slice of one domain.
 * Bound    N runnable tasks each run once within max(granularity, N * min_slice).
 * Source   000 equation 2.2 and Figure 2.17.
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

#endif
