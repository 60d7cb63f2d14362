/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Weights: what nice values and cgroup weights mean in the units of vtime.h.
 *
 * Rule     One nice step is a factor of about 1.25, the kernel's own table, so that a nice value means under this
 *          scheduler what it means under the stock one. A cgroup's cpu.weight of 100 is nice 0.
 * Source   The Linux user interface: setpriority(2), cgroup v2 cpu.weight.
 */
#ifndef CORE_NICE_H
#define CORE_NICE_H

#include "vtime.h"

#define NICE_LEVELS 40

/* clang-format off */
static const u32 nice_weight_1024[NICE_LEVELS] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
	1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
	110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
};
/* clang-format on */

/* `nice` from -20 to 19; others are taken as the nearest. */
static __always_inline u32 weight_of_nice(s32 nice)
{
	u32 i = nice < -20 ? 0 : nice > 19 ? NICE_LEVELS - 1 : (u32)(nice + 20);

	return nice_weight_1024[i] << (WEIGHT_SHIFT - 10);
}

/* Of tasks with the policy SCHED_IDLE, whatever their nice value: the kernel's WEIGHT_IDLEPRIO. */
#define WEIGHT_OF_IDLE (3u << (WEIGHT_SHIFT - 10))

/* `weight` from 1 to 10000, 100 is WEIGHT_ONE. */
static __always_inline u32 weight_of_cgroup(u32 weight)
{
	if (weight < 1)
		weight = 1;
	if (weight > 10000)
		weight = 10000;
	return (u32)((u64)weight * WEIGHT_ONE / 100);
}

#endif
