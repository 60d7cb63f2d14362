/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of the scheduler's locks: one CPU at a time has a lock, gives back what it took, and has no other one meanwhile.
 * Included once, before the scheduler, with its variables: its own functions have other names here.
 */
#define lock_take scheduler_lock_take
#define lock_release scheduler_lock_release
#include "lock.h"
#undef lock_take
#undef lock_release

/* A lock that has been taken before, and 1 + the CPU that has it. Twice as many as there may be. */
struct sim_lock {
	const struct lock *lock;
	u32 holder;
};

#define SIM_LOCKS_MAX (4 * SHARDS_MAX)
static struct sim_lock sim_locks[SIM_LOCKS_MAX];
static const struct lock *sim_held[CPUS_MAX]; /* by CPU */
static const char *sim_lock_broken;

static struct sim_lock *sim_lock_of(const struct lock *l)
{
	u32 i = ((u64)l * 0x9e3779b97f4a7c15ULL >> 32) % SIM_LOCKS_MAX;

	while (sim_locks[i].lock && sim_locks[i].lock != l)
		i = (i + 1) % SIM_LOCKS_MAX;
	sim_locks[i].lock = l;
	return &sim_locks[i];
}

static void lock_take(struct lock *l)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (one_cpu)
		return;
	if (sim_held[cpu])
		sim_lock_broken = "taken by a CPU that has another one";
	scheduler_lock_take(l);
	if (sim_lock_of(l)->holder)
		sim_lock_broken = "had by two CPUs at a time";
	sim_lock_of(l)->holder = cpu + 1;
	sim_held[cpu] = l;
}

static void lock_release(struct lock *l)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (one_cpu)
		return;
	if (sim_lock_of(l)->holder != cpu + 1)
		sim_lock_broken = "given back by a CPU that does not have it";
	sim_lock_of(l)->holder = 0;
	sim_held[cpu] = NULL;
	scheduler_lock_release(l);
}
