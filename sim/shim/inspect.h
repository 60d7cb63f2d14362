/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the simulator asks about the scheduler's state, from outside. Included once, after check.h and bounds.h. */

static struct sim_task_view view(const struct task_struct *p)
{
	struct task __arena *t = find_task(p);

	if (!t)
		return (struct sim_task_view){ 0 };
	return (struct sim_task_view){
		.known = true,
		.active = t->member.node.active,
		.waits = t->member.node.ready.queued,
		.member = t->set,
		.demoted = t->demoted,
		.place = t->place,
		.vtime = t->member.node.vtime,
		.weight = node_weight(&t->member.node),
	};
}

static u32 sets_left(void)
{
	u32 count = sim_map_count(&group_sets);

	for (u32 id = 1; id < DOMAINS_MAX; id++)
		count += !!find_domain_set(id);
	return count;
}

/* Virtual time begins where a run wants it to: near its wrap, for one. */
static void begin_vtime(u64 vtime)
{
	for (u32 i = 0; i < nr_places(); i++)
		place_at(nth_place(i))->root.vmin = vtime;
	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++)
		cpu_at(cpu)->clock = vtime;
}

static bool check(const struct sim_task_ref *tasks, u32 nr_tasks, struct sim_bounds bounds,
		  struct sim_finding *finding)
{
	struct checking c = { tasks, nr_tasks, bounds, finding, false };

	for (u32 i = 0; i < topology.nr_shards; i++)
		if (shards[i].lock.next != shards[i].lock.serving)
			broken(&c, "lock", "the lock of shard %u is held", i);
	if (sim_lock_broken)
		broken(&c, "lock", "a lock was %s", sim_lock_broken);
	for (u32 i = 0; i < nr_tasks && !c.broken; i++)
		check_task(&c, &tasks[i]);
	if (!c.broken)
		check_places(&c);
	if (!c.broken)
		check_accounts(&c);
	if (!c.broken)
		check_past(&c);
	if (!c.broken)
		check_gives(&c);
	if (!c.broken)
		check_bounds(&c);
	if (!c.broken)
		check_rides(&c);
	if (!c.broken)
		check_promises(&c);
	if (!c.broken)
		check_roles(&c);
	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++)
		if (cpu_at(cpu)->online && cpu_at(cpu)->running && !cpu_at(cpu)->running->kernel_task)
			broken(&c, "stale", "CPU %u takes a task for running that has gone", cpu);
	return c.broken;
}
