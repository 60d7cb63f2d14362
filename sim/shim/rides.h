/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of priority inheritance: who lends its seat sleeps, and nobody but the holder of what it waits for has it. Included
 * once, after check.h.
 */

/* A task that is there, or NULL. */
static struct task *known_task(const struct checking *c, const struct task *t)
{
	for (u32 i = 0; i < c->nr_tasks; i++)
		if (find_task(c->tasks[i].task) == t)
			return (struct task *)t;
	return NULL;
}

static void check_ride(struct checking *c, const struct sim_task_ref *ref)
{
	u32 number = ref->task->sim_task;
	struct task *t = find_task(ref->task), *waiter;

	if (!t || !t->rides)
		return;
	waiter = known_task(c, t->rides);
	if (!waiter)
		broken(c, "ride", "task %u rides in the seat of one that has gone", number);
	else if (waiter->member.node.active)
		broken(c, "ride", "task %u rides in the seat of task %d, which is awake", number,
		       waiter->pid);
	else if (waiter->holder != t)
		broken(c, "ride",
		       "task %u rides in the seat of task %d, which waits for another one", number,
		       waiter->pid);
	else if (t->home != waiter->home || t->weight != waiter->weight)
		broken(c, "ride", "task %u rides in a seat that task %d does not have any more",
		       number, waiter->pid);
	else if (t->set)
		broken(c, "ride", "task %u rides as a member of a domain", number);
}

/* Groups know how many ride in them, so that nobody is left where a group goes. */
static void check_riders(struct checking *c, const struct sim_task_ref *ref)
{
	const struct task *t = find_task(ref->task), *other;
	u32 count = 0;

	if (!t || c->broken || (!t->rides && !t->home->nr_riders))
		return;
	for (u32 i = 0; i < c->nr_tasks; i++) {
		other = find_task(c->tasks[i].task);
		count += other && other->rides && other->home == t->home;
	}
	if (count != t->home->nr_riders)
		broken(c, "ride", "%u ride in the group of task %u, it counts %u", count,
		       ref->task->sim_task, t->home->nr_riders);
}

static void check_rides(struct checking *c)
{
	for (u32 i = 0; i < c->nr_tasks && !c->broken; i++) {
		check_ride(c, &c->tasks[i]);
		check_riders(c, &c->tasks[i]);
	}
}
