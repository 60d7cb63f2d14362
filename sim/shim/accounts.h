/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of what accounts are told of their tasks: weights that count in a domain's seats, loads that divide an account's
 * weight, and who waits. Made anew from the tasks, as the sums in check.h. Included once, after that.
 */

/* ---- seats ---- */

/* What its members that sleep are ahead by: their part of the queue's sums. */
static void add_owing(struct checking *c, const struct member *m, struct owing *sums)
{
	u64 weight = m->node.weight >> OWING_SHIFT;

	if (!m->owing.queued)
		return;
	if (m->node.active)
		broken(c, "owing", "a member owes until %llu that is awake", m->owing.major);
	if (m->owing.major != m->own_vtime)
		broken(c, "owing", "a member owes until %llu, and is at %llu", m->owing.major,
		       m->own_vtime);
	sums->weight += weight;
	sums->sum += weight * m->own_vtime;
}

static void check_seat(struct checking *c, const struct seat *s)
{
	struct owing owing = { 0 };
	u64 counted = 0;
	u32 nr_members = 0, nr_active = 0, nr_waiting = 0, nr_listed = 0;

	for (const struct member *m = s->first; m && nr_listed <= c->nr_tasks; m = m->next_own)
		nr_listed += m->seat == s && m->node.ready.queued;
	for (u32 i = first_seated(s); i < nr_seated && seated[i].seat == s; i++) {
		const struct task *t = seated[i].task;

		nr_members++;
		nr_active += t->member.node.active;
		nr_waiting += t->member.node.ready.queued;
		if (t->member.node.active)
			counted += t->member.node.weight;
		add_owing(c, &t->member, &owing);
	}
	if (owing.weight != s->owing.weight || owing.sum != s->owing.sum)
		broken(c, "owing", "members that owe weigh %llu, their seat says %llu",
		       owing.weight, s->owing.weight);
	if (nr_active != s->node.nr_seated)
		broken(c, "seat", "%u members of a seat are active, it counts %u", nr_active,
		       s->node.nr_seated);
	if (nr_waiting != nr_listed || !!nr_waiting != s->node.ready.queued)
		broken(c, "seat", "%u members of a seat wait, its list has %u, and it %s",
		       nr_waiting, nr_listed, s->node.ready.queued ? "waits" : "does not");
	if (s->node.parent->node.kind != NODE_FAIR)
		broken(c, "seat", "a seat is in an account of kind %u", s->node.parent->node.kind);
	if (nr_members != s->nr_members)
		broken(c, "seat", "a seat has %u members, it counts %u", nr_members, s->nr_members);
	if (counted != s->counted)
		broken(c, "seat", "members that count in a seat weigh %llu, it counts %llu",
		       counted, s->counted);
	if (counted && s->node.weight != counted)
		broken(c, "seat", "a seat weighs %llu, its members %llu", s->node.weight, counted);
}

static void check_seats(void *context, struct group *g)
{
	struct visiting *v = context;

	if (g->node.kind != NODE_COOP)
		return;
	for (struct seat *s = domain_of(g)->seats; s; s = s->next)
		check_seat(v->checking, s);
}

/* ---- loads: see core/ledger.h ---- */

static void add_load(void *context, struct group *g)
{
	struct sum *sum;

	if (g->node.kind == NODE_COOP || !g->node.parent)
		return;
	sum = sum_of(g->node.parent);
	sum->of = g->node.parent;
	sum->load += g->load_above;
}

static void add_task_load(struct checking *c, const struct task *t)
{
	struct group *g = group_in(t->home, t->place);
	struct sum *sum = sum_of(g);
	u64 most = t->member.node.active ? load_of_weight(t->member.node.weight) : 0;

	sum->of = g;
	sum->load += t->load;
	if (!one_cpu && (t->load > most || (most && !t->load)))
		broken(c, "load", "task %d counts a load of %u, it weighs %llu", t->pid, t->load,
		       most);
}

static void check_load(void *context, struct group *g)
{
	struct visiting *v = context;
	const struct sum *sum = sum_of(g);

	/* The root is a member of the top only now and then, and the top has no use for loads. */
	if (g->node.kind != NODE_COOP && g != &place_at(v->place)->top && sum->load != g->load)
		broken(v->checking, "load",
		       "a group of place %u at level %u has a load of %llu, it counts %llu",
		       v->place, g->level, sum->load, g->load);
}

/* An account's load everywhere. */
static void check_ledgers(struct checking *c)
{
	for (u32 i = 0; i < sim_map_slots(&group_sets); i++) {
		u64 *at = sim_map_slot(&group_sets, i);
		struct group_set *set = at ? (struct group_set *)*at : NULL;
		u64 load = 0;

		if (!set || !set->parent || set->id != *(u64 *)sim_map_slot_key(&group_sets, i))
			continue;
		for (u32 n = 0; n < nr_places(); n++) {
			const struct group *g = group_in(set, nth_place(n));

			load += g->load_here;
			if (g->load_here > g->load)
				broken(c, "load", "a group of load %llu counts %llu", g->load,
				       g->load_here);
		}
		if (load != set->ledger.load)
			broken(c, "load", "an account has a load of %llu, its ledger says %llu",
			       load, set->ledger.load);
	}
}

static void check_loads(struct checking *c)
{
	for (u32 i = 0; i < nr_places(); i++)
		each_group(nth_place(i), add_load, c);
	for (u32 i = 0; i < c->nr_tasks; i++) {
		const struct task *t = find_task(c->tasks[i].task);

		if (t && !t->on_the_way)
			add_task_load(c, t);
	}
	for (u32 i = 0; i < nr_places() && !c->broken; i++) {
		struct visiting v = { c, nth_place(i) };

		each_group(v.place, check_load, &v);
	}
	if (!c->broken)
		check_ledgers(c);
}

/* ---- who waits ---- */

/* All that wait in a place are in its list, the one that has waited for longest first, by the clock of who came with it. */
static void check_waiters(struct checking *c, u32 place)
{
	const struct waiters *all = &place_at(place)->waiters;
	const struct waiter *w, *before = NULL;
	u32 listed = 0, waiting = 0;

	for (w = all->first; w && listed <= c->nr_tasks; before = w, w = w->next, listed++) {
		if (w->before != before)
			broken(c, "waiters", "a link of the list of place %u is out of place",
			       place);
		if (before && before->since_ns > w->since_ns + c->bounds.late_ns)
			broken(c, "waiters", "who waits for longer is not first in place %u", place);
	}
	if (all->last != before)
		broken(c, "waiters", "the list of place %u has another last one", place);
	for (u32 i = 0; i < c->nr_tasks; i++) {
		const struct task *t = find_task(c->tasks[i].task);

		waiting += t && t->place == place && t->member.node.ready.queued;
	}
	if (listed != waiting)
		broken(c, "waiters", "%u wait in place %u, its list has %u", waiting, place, listed);
}

/*
 * A task that runs on a CPU beside one that waits in the CPU's own place, for no other CPU, has a slice from then on: not from when
 * that one began to wait elsewhere, or was held.
 */
static void check_compared(struct checking *c, const struct consort_cpu *own, u32 cpu)
{
	const struct waiter *first = own->place.waiters.first;
	struct task *t = own->running;
	u64 by_ns;

	if (!t || !t->kernel_task || !first)
		return;
	by_ns = first->came_ns > own->since_ns ? first->came_ns : own->since_ns;
	by_ns += run_max_ns(c, &t->member.node);
	if (in_domain(t))
		by_ns += run_max_ns(c, &t->member.seat->node);
	if (own->compare_at_ns > by_ns + c->bounds.late_ns)
		broken(c, "compare",
		       "CPU %u compares %llu us too late with who waits in its own place", cpu,
		       (own->compare_at_ns - by_ns) / 1000);
}

static void check_cpus(struct checking *c)
{
	for (u32 i = 0; i < topology.nr_cpus && !c->broken; i++)
		check_compared(c, cpu_at(i), i);
}

/* A member has had no more due events than it could. */
static void check_served(struct checking *c, const struct sim_task_ref *ref)
{
	const struct task *t = find_task(ref->task);

	if (t && t->set && t->member.served > bpf_ktime_get_ns())
		broken(c, "served", "task %u has had %llu due events", ref->task->sim_task,
		       t->member.served);
}

static void check_accounts(struct checking *c)
{
	for (u32 i = 0; i < nr_places() && !c->broken; i++) {
		struct visiting v = { c, nth_place(i) };

		each_group(v.place, check_seats, &v);
		check_waiters(c, v.place);
	}
	if (!one_cpu && !c->broken)
		check_loads(c);
	if (!one_cpu && c->bounds.weights_stay)
		check_cpus(c);
	for (u32 i = 0; i < c->nr_tasks && !c->broken; i++)
		check_served(c, &c->tasks[i]);
}
