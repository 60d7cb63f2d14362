/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Virtual time: CPU time received, divided by weight.
 *
 * Problem  Members of a group have different weights; who is behind?
 * Rule     Running `ns` adds `ns / weight`. The member with the smallest sum runs next.
 * Bound    For runnable i, j of one group: vtime_i - vtime_j <= quantum / weight_i (004 Lemma 1).
 * Source   000 section 2.3.3 (virtual time); 001 (pass); 004 section 3 (finish value).
 * Limits   Sums wrap. Comparisons are signed differences: two members of one group would have to be seven hours of
 *          CPU time apart, at the smallest weight, to be mistaken; a wake-up brings them together long before.
 *
 * Units: a weight of WEIGHT_ONE is nice 0; virtual time counts 2^-10 ns of a member of that weight, so that
 * even the shortest run of the heaviest member is charged to better than one part in a thousand.
 */
#ifndef CORE_VTIME_H
#define CORE_VTIME_H

#include "types.h"

#define WEIGHT_SHIFT 20
#define WEIGHT_ONE (1u << WEIGHT_SHIFT)
#define VTIME_SHIFT 10

/* Longest time charged at once; more is a broken clock, and is cut off. */
#define CHARGE_MAX_NS (1ULL << 33)

static __always_inline int vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline u64 vtime_max(u64 a, u64 b)
{
	return vtime_before(a, b) ? b : a;
}

/* What running `ns` adds to the virtual time of a member of `weight`. */
static __always_inline u64 vtime_of_ns(u64 ns, u64 weight)
{
	if (ns > CHARGE_MAX_NS)
		ns = CHARGE_MAX_NS;
	return (ns << (WEIGHT_SHIFT + VTIME_SHIFT)) / (weight ? weight : 1);
}

/* How long a member of `weight` runs until it has gained `vtime`; 0 if that is in its past. */
static __always_inline u64 vtime_to_ns(u64 vtime, u64 weight)
{
	if ((s64)vtime <= 0)
		return 0;
	return ((vtime >> VTIME_SHIFT) * (weight >> 4)) >> (WEIGHT_SHIFT - 4);
}

#endif
