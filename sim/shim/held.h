/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What must be so of tasks that limits of cgroups hold, and of what tasks were granted. */

/* For how long a task has waited for others: not while a limit held it. */
static u64 waits_unheld_ns(const struct sim_task_ref *ref, const struct task *t)
{
	u64 waits_ns = t ? *sim_host->now_ns - t->member.waiter.came_ns : NEVER_NS;

	return sim_map_slots(&limit_timers) && waits_ns < ref->waits_ns ? waits_ns : ref->waits_ns;
}

static bool is_in_held(const struct held *list, const struct waiter *w)
{
	const struct waiter *at = list->first;

	while (at && at != w)
		at = at->next;
	return at;
}

static void check_held(struct checking *c, const struct task *t, const struct sim_task_ref *ref)
{
	u32 number = ref->task->sim_task;

	if (t->granted_ns && !t->member.node.active && !t->on_the_way)
		broken(c, "limit", "task %u sleeps, and keeps %u ns of its cgroup's budget", number,
		       t->granted_ns);
	if (!t->held_by)
		return;
	if (t->member.node.active || t->member.node.ready.queued)
		broken(c, "limit", "task %u is held, and takes part", number);
	if (!ref->is_held && !ref->was_overtaken)
		broken(c, "two-places", "task %u is held, and was not given to the scheduler",
		       number);
	if (!is_in_held(held_in(t->held_by, shard_of_place(t->place)), &t->member.waiter))
		broken(c, "limit", "task %u is held, and in no list", number);
	if (!t->held_by->limit.timer_at_ns)
		broken(c, "limit", "task %u is held, and nobody will let it go", number);
}
