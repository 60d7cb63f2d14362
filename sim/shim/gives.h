/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A seat that has given enough to members of other accounts pays for none of them (core/seat.h): nobody begins a run in one that
 * had at the last look, and has still. Included once, after check.h.
 */

#define KEEPING_MAX 64
/* Looks that are further apart miss what a seat is given back and gives again. */
#define GIVES_LOOK_MAX_NS 20000

static const struct seat *past_keeping[KEEPING_MAX];
static u32 nr_past_keeping;
static u64 past_gives_ns;
/* Who ran on each CPU at the last look, and in which seat. */
static struct {
	const struct task *of;
	const struct tree_node *pays;
} past_run[CPUS_MAX];

static void forget_gives(void)
{
	nr_past_keeping = 0;
	past_gives_ns = 0;
	memset(past_run, 0, sizeof(past_run));
}

static bool kept(const struct seat *s)
{
	for (u32 i = 0; i < nr_past_keeping; i++)
		if (past_keeping[i] == s)
			return true;
	return false;
}

static void check_gives_on(struct checking *c, u32 cpu, bool looked)
{
	struct task *t = cpu_at(cpu)->running;
	const struct tree_node *n = t && in_domain(t) && !t->on_the_way ? pays_of(t) : NULL;
	const struct seat *s =
		n && n->kind == NODE_SEAT ? seat_of_node((struct tree_node *)n) : NULL;
	bool begins = past_run[cpu].of != t || past_run[cpu].pays != n;

	past_run[cpu].of = t;
	past_run[cpu].pays = n;
	if (s && looked && begins && s != t->member.seat && seat_keeps(s) && kept(s))
		broken(c, "gives",
		       "task %d runs in a seat of another account that has given enough", t->pid);
}

static void check_gives(struct checking *c)
{
	u64 now_ns = bpf_ktime_get_ns();
	bool looked = now_ns - past_gives_ns < GIVES_LOOK_MAX_NS;

	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++)
		check_gives_on(c, cpu, looked);
	past_gives_ns = now_ns;
	nr_past_keeping = 0;
	for (u32 i = 0; i < c->nr_tasks && nr_past_keeping < KEEPING_MAX; i++) {
		const struct task *t = find_task(c->tasks[i].task);
		const struct seat *s = t && !t->on_the_way ? t->member.seat : NULL;

		if (s && seat_keeps(s) && !kept(s))
			past_keeping[nr_past_keeping++] = s;
	}
}
