/* SPDX-License-Identifier: GPL-2.0 */
/* Start: memory for CPUs and shards, and their timers. Run once, before the scheduler is attached. */
#ifndef CONSORT_SETUP_H
#define CONSORT_SETUP_H

#include "memory.h"
#include "timer.h"

static inline void place_init(struct place __arena *pl)
{
	pl->root.node.kind = NODE_FAIR;
	pl->root.node.weight = WEIGHT_ONE;
	pl->top.node.kind = NODE_FAIR;
}

SEC("syscall")
int consort_init_arena(struct consort_init_args *args)
{
	USES_ARENA();
	args->error = ENOMEM;
	cpus = alloc_pages(CPUS_MAX * sizeof(struct consort_cpu));
	shards = alloc_pages(SHARDS_MAX * sizeof(struct shard));
	root_set = alloc_pages(sizeof(struct group_set));
	task_pool = alloc_pages(sizeof(struct task_pool));
	if (!cpus || !shards || !root_set || !task_pool)
		return 0;
	for (u32 shard = 0; shard < topology.nr_shards && can_loop; shard++)
		place_init(&shard_at(shard)->place);
	for (u32 cpu = 0; cpu < topology.nr_cpus && cpu < CPUS_MAX && can_loop; cpu++) {
		struct consort_cpu __arena *c = cpu_at(cpu);

		c->shard = topology.shard_of[cpu];
		c->online = 1;
		c->compare_at_ns = NEVER_NS;
		c->timer_at_ns = NEVER_NS;
		place_init(&c->place);
		shard_at(c->shard)->nr_cpus++;
		shard_at(c->shard)->nr_possible++;
		shard_at(c->shard)->cpus[cpu / 64 % MASK_WORDS] |= 1ULL << cpu % 64;
		if (use_timers && timer_init(cpu)) {
			args->error = EOPNOTSUPP; /* this kernel refuses BPF timers */
			return 0;
		}
	}
	args->error = 0;
	return 0;
}

#endif
