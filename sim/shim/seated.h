/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Who sits in which seat: of each only its own members are looked at. Found anew for each check. Included once, before check.h. */

struct seated {
	const struct seat *seat;
	const struct task *task;
	bool is_here; /* not away, see kernel/bpf/away.h */
};

static struct seated *seated; /* by seat */
static u32 nr_seated;

static int by_seat(const void *one, const void *other)
{
	const struct seated *a = one, *b = other;

	return a->seat < b->seat ? -1 : a->seat > b->seat;
}

static void find_seated(const struct sim_task_ref *tasks, u32 nr_tasks)
{
	seated = room_for(seated, (nr_tasks + 1ULL) * sizeof(*seated));
	nr_seated = 0;
	for (u32 i = 0; i < nr_tasks; i++) {
		const struct task *t = find_anywhere(tasks[i].task);

		if (t && t->member.seat)
			seated[nr_seated++] =
				(struct seated){ t->member.seat, t, find_task(tasks[i].task) == t };
	}
	qsort(seated, nr_seated, sizeof(*seated), by_seat);
}

/* The first in a seat; those after it are in it as long as their `seat` is. */
static u32 first_seated(const struct seat *s)
{
	u32 from = 0, to = nr_seated;

	while (from < to) {
		u32 middle = from + (to - from) / 2;

		if (seated[middle].seat < s)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}
