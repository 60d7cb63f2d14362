/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of how far members may be apart, and how long one may wait. Included once, after check.h.
 */

/* The longest event of a domain, and what it may last longer. */
#define GRACE_MAX_NS (CONSORT_EVENT_MAX_NS + CONSORT_EVENT_MAX_NS / 8)

/* A task that runs beside nobody is charged when somebody wakes, except for the last of it: ESTIMATE_MIN_NS. */
static u64 quantum_ns(const struct checking *c)
{
	u64 slice_ns = tunables.granularity_ns > tunables.min_slice_ns ? tunables.granularity_ns :
									 tunables.min_slice_ns;

	return slice_ns + ESTIMATE_MIN_NS + c->bounds.late_ns;
}

/* What a domain may have of the CPU for due events, one after the other, beyond a slice. */
static u64 borrow_max_ns(const struct checking *c, const struct domain *d)
{
	return quantum_ns(c) * sum_of(&d->group)->nr_all + 2 * tunables.window_ns + d->grace_ns;
}

/*
 * How long a member may run before it is compared with the others of its group: a domain, with all of its members; who
 * was demoted, as much before. An account, as much more as a seat below it may.
 */
static u64 run_max_ns(const struct checking *c, const struct tree_node *n)
{
	u64 ns = quantum_ns(c);
	const struct domain *d;

	if (n->kind == NODE_TASK) {
		const struct task *t = task_of_node((struct tree_node *)n);

		/* A task that has left a domain has taken its part of the lead along. */
		if (!t->set)
			return ns +
			       (t->member.debt_vtime ? 2 * tunables.window_ns + GRACE_MAX_NS : 0);
		d = domain_in(t->set, t->place);
	} else if (n->kind == NODE_SEAT) {
		d = seat_of_node((struct tree_node *)n)->domain;
	} else {
		return ns + sum_of(outer_of(n, struct group, node))->borrow_max_ns;
	}
	return ns + borrow_max_ns(c, d);
}

/* Whether due events may put a node ahead: a seat, an account above one, and whoever is demoted takes that along. */
static bool may_borrow(const struct tree_node *n)
{
	if (n->kind == NODE_SEAT)
		return true;
	if (n->kind == NODE_TASK)
		return task_of_node((struct tree_node *)n)->set;
	return sum_of(outer_of(n, struct group, node))->borrow_max_ns;
}

/*
 * Lemma 1: of two runnable members of a group, on one CPU, none is ahead of the other by more than it can run before
 * it is compared again, at its rate. Where periods decide, the other may be behind by its own, and what it runs.
 */
struct lemma {
	struct checking *checking;
	const struct group *of;
	bool any;
	u64 most_ahead; /* virtual time of the one farthest ahead, less what it may be ahead */
	u64 least;
};

/* A seat weighs what its active members do: the lightest of all, while only that one is. */
static u64 lemma_weight(const struct lemma *l, const struct tree_node *n)
{
	u64 lightest = n->weight;

	if (n->kind != NODE_SEAT)
		return node_weight(n);
	for (u32 i = 0; i < l->checking->nr_tasks; i++) {
		struct task *t = find_task(l->checking->tasks[i].task);

		if (t && t->weight < lightest)
			lightest = t->weight;
	}
	return lightest;
}

/* By how much virtual time a member may be behind its group's, besides what it may be ahead: periods, see period.h. */
static u64 may_be_behind(const struct checking *c, const struct tree_node *n)
{
	const struct group *g = n->parent;

	if (g->node.kind != NODE_PERIOD)
		return 0;
	return n->period_vtime + vtime_of_ns(run_max_ns(c, n), n->weight) +
	       vtime_of_ns(run_max_ns(c, n), g->weight_all);
}

static void lemma_node(struct lemma *l, struct tree_node *n)
{
	u64 less, vtime;

	if (n->parent != l->of || !n->active)
		return;
	less = n->vtime - vtime_of_ns(run_max_ns(l->checking, n), lemma_weight(l, n));
	/* A domain may borrow a slice of nice 0, whatever it weighs. */
	if (may_borrow(n))
		less -= vtime_of_ns(quantum_ns(l->checking), WEIGHT_ONE);
	vtime = n->vtime + may_be_behind(l->checking, n);
	/* What it was owed when it went to sleep it has when it is back. */
	if (n->parent->node.kind == NODE_FAIR)
		vtime = vtime_max(vtime, n->rest_vtime);
	l->most_ahead = l->any ? vtime_max(l->most_ahead, less) : less;
	l->least = l->any && vtime_before(l->least, vtime) ? l->least : vtime;
	l->any = true;
}

static void lemma_child(void *context, struct group *g)
{
	lemma_node(context, &g->node);
	if (g->node.kind != NODE_COOP)
		return;
	for (struct seat *s = domain_of(g)->seats; s; s = s->next)
		lemma_node(context, &s->node);
}

static void check_lemma(void *context, struct group *g)
{
	struct visiting *v = context;
	struct lemma l = { .checking = v->checking, .of = g };

	if (g->node.kind == NODE_COOP)
		return;
	each_group(v->place, lemma_child, &l);
	for (u32 i = 0; i < v->checking->nr_tasks; i++) {
		struct task *t = find_task(v->checking->tasks[i].task);

		if (t)
			lemma_node(&l, &t->member.node);
	}
	if (l.any && vtime_before(l.least, l.most_ahead))
		broken(v->checking,
		       "lemma-1", "a member of a group at level %u is ahead by %llu us of weight 1 more than it may be",
		       g->level, vtime_to_ns(l.most_ahead - l.least, WEIGHT_ONE) / 1000);
}

/* Due debt is for running on expired due events: nobody owes more than all that he has had. */
static void check_debt(struct checking *c, const struct sim_task_ref *ref)
{
	struct task *t = find_task(ref->task);
	u64 debt, had;

	if (!t || !t->set)
		return;
	debt = t->member.debt_vtime - domain_clock(domain_in(t->set, t->place));
	had = vtime_of_ns(ref->had_ns + AHEAD_NS, t->weight);
	if (vtime_before(had, debt))
		broken(c, "debt",
		       "task %u owes its domain %llu us of weight 1, it had %llu us in all",
		       ref->task->sim_task, vtime_to_ns(debt, WEIGHT_ONE) / 1000,
		       ref->had_ns / 1000);
}

/* ---- starvation: a member gets its part of the group's time, which gets its part of its parent's ---- */

/* No run lasts that long. */
#define PATIENCE_MAX_NS 1000000000000000ULL

static u64 part_of(u64 ns, u64 all, u64 weight)
{
	double part = (double)ns * (all > weight ? all : weight) / (weight ? weight : 1);

	return part < 2.0 * PATIENCE_MAX_NS ? (u64)part : 2 * PATIENCE_MAX_NS;
}

/* CPU time of its group that may pass before a member has run: it is as far ahead as it may be, all others are not. */
static u64 level_wait_ns(const struct checking *c, const struct tree_node *n, u64 inner_ns)
{
	const struct sum *sum = sum_of(n->parent);
	u64 weight = n->kind == NODE_SEAT ?
			     sum_of(&seat_of_node((struct tree_node *)n)->domain->group)->lightest :
			     n->weight;

	return part_of(inner_ns + run_max_ns(c, n), sum->weight_all, weight) +
	       vtime_to_ns(may_be_behind(c, n), sum->weight_all) +
	       sum->nr_all * (sum->run_max_ns ?: quantum_ns(c));
}

/* CPU time of its domain until a waiting member runs, once its patience has ended. */
static u64 domain_wait_ns(const struct checking *c, const struct task *t)
{
	const struct domain *d = domain_in(t->set, t->place);
	const struct sum *sum = sum_of(&d->group);
	u64 debt = member_out_of_debt_at(&t->member, d) - domain_clock(d);

	return vtime_to_ns(debt, sum->weight_all) + sum->nr_all * (quantum_ns(c) + 2 * d->grace_ns);
}

/* Below the root of every place: while a task waits, others may come from any other place, and go. */
static u64 weight_everywhere(void)
{
	u64 weight = 0;

	for (u32 i = 0; i < nr_places(); i++)
		weight += sum_of(&place_at(nth_place(i))->root)->weight_all;
	return weight;
}

/* A CPU divides its time between its own place, its subsets' and its shard's, whose weight is that of all of their CPUs. */
static u64 place_wait_ns(const struct checking *c, const struct task *t, u64 ns, u64 weight)
{
	u32 nr_cpus = t->place < SHARDS_MAX ? shard_at(t->place)->nr_cpus :
		      is_own(t->place)	    ? 1 :
					      place_at(t->place)->nr_cpus;

	if (one_cpu)
		return ns;
	ns += c->nr_tasks * quantum_ns(c);
	return part_of(ns, weight_everywhere(), weight / (nr_cpus ?: 1));
}

/* Beside classes: the least part of its CPUs that a place's root has had in this second, and in the one before. */
struct root_part {
	u64 second;
	u64 least;
	u64 least_before;
};

static struct root_part root_parts[PLACES_MAX];

static void forget_root_parts(void)
{
	memset(root_parts, 0, sizeof(root_parts));
}

/* The least part that places beside a shard's have of one of the CPUs that choose from `place`. */
static u64 sides_least(u32 place)
{
	u64 least = WEIGHT_ONE;

	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++) {
		const struct consort_cpu *c = cpu_at(cpu);

		if (c->shard == shard_of_place(place) && may_use(place, cpu) && c->own_weight < least)
			least = c->own_weight;
	}
	return least;
}

/* What it has now: what classes leave it in its place, which may not have all of its CPUs (core/division.h). */
static u64 root_part_now(u32 place, const struct place *pl)
{
	u64 weight = pl->root.node.weight;

	if (is_own(place))
		return weight;
	if (place >= SHARDS_MAX)
		return weight * sides_least(place) >> WEIGHT_SHIFT;
	return weight * (class_cpus_weight(pl) / (pl->nr_cpus ?: 1)) >> WEIGHT_SHIFT;
}

static void look_at_root_part(u32 place)
{
	struct root_part *p = &root_parts[place];
	const struct place *pl = place_at(place);
	u64 second = 1 + *sim_host->now_ns / 1000000000, part;

	if (!pl->root.node.parent)
		return;
	part = root_part_now(place, pl);
	if (p->second != second) {
		p->least_before = p->second + 1 == second ? p->least : part;
		p->least = part;
		p->second = second;
	}
	if (part < p->least)
		p->least = part;
}

/* A root's task waits for so long where it has all: so long where it has what it had. */
static u64 beside_classes_ns(const struct checking *c, u64 ns, u32 place)
{
	const struct root_part *p = &root_parts[place];
	u64 nominal = place_at(place)->root.nominal_weight;
	u64 least = p->least < p->least_before ? p->least : p->least_before;

	return one_cpu ? ns : part_of(ns + 2 * lead_max_ns(), nominal, least);
}

/* Whatever the weights: all others may have waited for longer, wherever they are (core/live.h). */
static u64 live_ns(const struct checking *c, const struct sim_task_ref *ref)
{
	u64 nr_others = c->nr_tasks + ref->nr_ended, rounds = LIVE_PART * (nr_others + 1);

	return LIVE_WAIT_NS + 2 * rounds * quantum_ns(c);
}

static void check_starvation(struct checking *c, const struct sim_task_ref *ref)
{
	struct task *t = find_task(ref->task);
	const struct tree_node *n;
	u64 ns = 0, patience_ns = 0, waits_ns = waits_unheld_ns(ref, t);

	if (!t || !t->member.node.ready.queued || !waits_ns)
		return;
	n = &t->member.node;
	if (in_domain(t)) {
		patience_ns = PATIENCE_NS;
		ns = domain_wait_ns(c, t);
		n = &t->member.seat->node;
	}
	for (; n->parent && n->parent != &place_at(t->place)->top; n = &n->parent->node) {
		ns = level_wait_ns(c, n, ns);
		if (!n->parent->node.parent)
			ns = place_wait_ns(c, t, ns, n->weight);
	}
	if (n->parent)
		ns = beside_classes_ns(c, ns, t->place);
	/* The lightest may wait for longer than fits into the sums below. */
	if (ns > PATIENCE_MAX_NS)
		ns = PATIENCE_MAX_NS;
	/* Twice: a group may have come in the meantime, and an event may have been interrupted. */
	ns = patience_ns + 2 * ns;
	/* A task that has ended was before it, and is not among those that are there. */
	ns += ref->nr_ended * 2 * quantum_ns(c);
	if (ns > live_ns(c, ref))
		ns = live_ns(c, ref);
	if (waits_ns > ns + c->bounds.late_ns)
		broken(c, "starvation",
		       "task %u has waited for %llu us, at its rate it may for %llu us",
		       ref->task->sim_task, waits_ns / 1000, ns / 1000);
}

static void check_bounds(struct checking *c)
{
	struct visiting v = { c, place_of_shard(0) };

	for (u32 i = 0; !one_cpu && i < nr_places(); i++)
		look_at_root_part(nth_place(i));
	if (!c->bounds.weights_stay)
		return;
	for (u32 i = 0; i < c->nr_tasks && !c->broken; i++) {
		check_debt(c, &c->tasks[i]);
		if (c->bounds.cpus_stay)
			check_starvation(c, &c->tasks[i]);
	}
	if (one_cpu && !c->broken)
		each_group(v.place, check_lemma, &v);
}
