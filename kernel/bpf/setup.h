/* SPDX-License-Identifier: GPL-2.0 */
/* Start: memory for CPUs and shards, and their timers. Run once, before the scheduler is attached. */
#ifndef CONSORT_SETUP_H
#define CONSORT_SETUP_H

#include "memory.h"
#include "timer.h"

static inline void place_init(struct place __arena *pl, bool of_one_cpu)
{
	pl->root.node.kind = NODE_FAIR;
	pl->root.node.weight = WEIGHT_ONE;
	pl->root.of_one_cpu = of_one_cpu;
	pl->top.node.kind = NODE_FAIR;
	pl->top.of_one_cpu = of_one_cpu;
}

static inline void shard_init(struct shard __arena *s, u32 shard)
{
	s->lock.number = shard;
	place_init(&s->place, one_cpu);
	for (u32 i = hidden(0); i < SUBSETS && can_loop; i = hidden(i + 1))
		place_init(&subset_at(s, i)->place, false);
}

/* Once CPUs know their shards. */
static inline void directory_fill(void)
{
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(i), number = place - PLACE_SUBSETS;
		struct place_entry __arena *e = directory + place;

		e->index = i;
		if (place < SHARDS_MAX) {
			e->kind = PLACE_OF_SHARD;
			e->shard = place;
			e->at = &shard_at(place)->place;
		} else if (place < PLACE_SUBSETS) {
			e->kind = PLACE_OF_CPU;
			e->shard = cpu_at(place - SHARDS_MAX)->shard;
			e->at = &cpu_at(place - SHARDS_MAX)->place;
		} else {
			e->kind = PLACE_OF_SUBSET;
			e->shard = number / SUBSETS;
			e->at = &subset_at(shard_at(e->shard), number)->place;
		}
	}
}

/* One that is offline may come later, and one that is not there yet. */
core_fn cpu_init(u32 cpu)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *s;
	const struct cpumask *online;

	USES_ARENA();
	c->shard = topology.shard_of[cpu & (CPUS_MAX - 1)];
	c->compare_at_ns = NEVER_NS;
	c->timer_at_ns = NEVER_NS;
	place_init(&c->place, true);
	s = shard_at(c->shard);
	s->nr_possible++;
	s->cpus[cpu / 64 % MASK_WORDS] |= 1ULL << cpu % 64;
	online = scx_bpf_get_online_cpumask();
	if (bpf_cpumask_test_cpu(cpu, online)) {
		c->online = 1;
		s->nr_cpus++;
		s->online[cpu / 64 % MASK_WORDS] |= 1ULL << cpu % 64;
	}
	scx_bpf_put_cpumask(online);
	return 0;
}

call_fn consort_init_arena(struct consort_init_args *args)
{
	USES_ARENA();
	args->error = ENOMEM;
	cpus = alloc_pages((topology.nr_cpus + 1) * sizeof(struct consort_cpu));
	shards = alloc_pages(topology.nr_shards * sizeof(struct shard));
	root_set = alloc_pages(sizeof(struct group_set));
	directory = alloc_pages(PLACES_MAX * sizeof(struct place_entry));
	task_pool = alloc_pages(sizeof(struct task_pool));
	if (!cpus || !shards || !root_set || !directory || !task_pool)
		return 0;
	for (u32 shard = hidden(0); shard < topology.nr_shards && can_loop;
	     shard = hidden(shard + 1))
		shard_init(shard_at(shard), shard);
	for (u32 cpu = hidden(0); cpu < topology.nr_cpus && can_loop; cpu = hidden(cpu + 1)) {
		cpu_init(cpu);
		if (use_timers && timer_init(cpu)) {
			args->error = EOPNOTSUPP; /* this kernel refuses BPF timers */
			return 0;
		}
	}
	place_init(&cpu_at(topology.nr_cpus)->place, true);
	directory_fill();
	args->error = 0;
	return 0;
}

#endif
