/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Rules of the scheduler's own state that hold whenever nobody is inside it. Included once, after the scheduler. */

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

static bool check(struct task_struct *const *tasks, u32 nr_tasks, u64 now_ns,
		  struct sim_finding *finding)
{
	return false;
}
