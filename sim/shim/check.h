/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of the scheduler's own state that hold whenever nobody is inside it. Included once, after the scheduler.
 *
 * Every sum is made anew from the tasks, and compared with what the scheduler keeps up to date.
 */

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

/* What is looked at, and where a broken rule is written. */
struct checking {
	const struct sim_task_ref *tasks;
	u32 nr_tasks;
	struct sim_finding *finding;
	bool broken;
};

#define broken(c, name, text, args...)                                                            \
	({                                                                                        \
		if (!(c)->broken) {                                                               \
			snprintf((c)->finding->rule, sizeof((c)->finding->rule), name);           \
			snprintf((c)->finding->detail, sizeof((c)->finding->detail), text, args); \
		}                                                                                 \
		(c)->broken = true;                                                               \
	})

/* A heap holds `count` links, each in its place; -1 if it is broken. */
static int check_links(struct checking *c, struct heap_link *l, struct heap_link *parent, int depth)
{
	int left, right;

	if (!l)
		return 0;
	if (depth > 4096 || l->parent != parent || !l->queued ||
	    l->rank != heap_rank(l->right) + 1 || heap_rank(l->left) < heap_rank(l->right)) {
		broken(c, "heap", "a link at depth %d is out of shape", depth);
		return -1;
	}
	if (parent && heap_before(l, parent)) {
		broken(c, "heap", "a link at depth %d comes before its parent", depth);
		return -1;
	}
	left = check_links(c, l->left, l, depth + 1);
	right = left < 0 ? -1 : check_links(c, l->right, l, depth + 1);
	return right < 0 ? -1 : left + right + 1;
}

struct sum {
	u32 nr_active;
	u32 nr_waiting;
	u64 weight;
};

static void add_node(struct sum *sum, const struct tree_node *n, const struct group *g)
{
	if (n->parent != g)
		return;
	if (n->active) {
		sum->nr_active++;
		sum->weight += n->weight;
	}
	sum->nr_waiting += n->ready.queued;
}

static u32 place_number(u32 i)
{
	return i < topology.nr_shards ? i : SHARDS_MAX + i - topology.nr_shards;
}

/* Calls `visit` for each group of a place: the root, the cgroups', the domains'. */
static void each_group(u32 place, void (*visit)(void *context, struct group *g), void *context)
{
	visit(context, &place_at(place)->root);
	for (u32 i = 0; i < sim_map_slots(&group_sets); i++) {
		u64 *at = sim_map_slot(&group_sets, i);
		struct group_set *set = at ? (struct group_set *)*at : NULL;

		if (set && set->parent)
			visit(context, group_in(set, place));
	}
	for (u32 id = 1; id <= sim_domains_max; id++) {
		struct domain_set *set = find_domain_set(id);

		if (set)
			visit(context, &domain_in(set, place)->group);
	}
}

struct summing {
	struct sum sum;
	struct group *of;
};

static void sum_group(void *context, struct group *g)
{
	struct summing *s = context;

	add_node(&s->sum, &g->node, s->of);
}

struct visiting {
	struct checking *checking;
	u32 place;
};

static void check_group(void *context, struct group *g)
{
	struct visiting *v = context;
	struct checking *c = v->checking;
	struct summing s = { .of = g };
	int links = check_links(c, g->ready.top, NULL, 0);

	if (links < 0)
		return;
	each_group(v->place, sum_group, &s);
	for (u32 i = 0; i < c->nr_tasks; i++) {
		struct task *t = find_task(c->tasks[i].task);

		if (!t)
			continue;
		add_node(&s.sum, &t->member.node, g);
		add_node(&s.sum, &t->stand_in, g);
	}
	if (s.sum.nr_active != g->nr_active || s.sum.weight != g->weight_active)
		broken(c, "sums",
		       "a group of place %u at level %u counts %u active members of weight %llu, "
		       "there are %u of %llu",
		       v->place, g->level, g->nr_active, g->weight_active, s.sum.nr_active,
		       s.sum.weight);
	if (s.sum.nr_waiting != (u32)links)
		broken(c, "sums", "a group of place %u has %d links for %u waiting members",
		       v->place, links, s.sum.nr_waiting);
}

static void check_place(struct checking *c, u32 place)
{
	struct place *pl = place_at(place);
	struct visiting v = { c, place };
	u32 nr_runnable = 0;

	each_group(place, check_group, &v);
	if (check_links(c, pl->due.top, NULL, 0) < 0 || check_links(c, pl->ahead.top, NULL, 0) < 0)
		return;
	for (u32 i = 0; i < c->nr_tasks; i++) {
		struct task *t = find_task(c->tasks[i].task);

		nr_runnable += t && t->place == place && t->member.node.active;
	}
	if (nr_runnable != pl->nr_runnable)
		broken(c, "sums", "place %u counts %u runnable tasks, there are %u", place,
		       pl->nr_runnable, nr_runnable);
}

#define AHEAD_NS 8000000ULL

static void check_task(struct checking *c, const struct sim_task_ref *ref)
{
	const struct task_struct *p = ref->task;
	struct task *t = find_task(p);

	if (!t) {
		if (ref->is_held)
			broken(c, "lost-task", "task %d is held, but has no state", p->pid - 1);
		return;
	}
	if (ref->is_held && !t->member.node.ready.queued)
		broken(c, "lost-task", "task %d was given to the scheduler, and is in no queue",
		       p->pid - 1);
	if (!ref->is_held && t->member.node.ready.queued)
		broken(c, "two-places",
		       "task %d waits in a queue, and was not given to the scheduler", p->pid - 1);
	if (t->member.node.ready.queued && !t->member.node.active)
		broken(c, "sums", "task %d waits and is not active", p->pid - 1);
	if (in_domain(t) ? t->member.node.parent != &domain_in(t->set, t->place)->group :
			   t->member.node.parent != group_in(t->home, t->place))
		broken(c, "tree", "task %d is not below its group", p->pid - 1);
	/* What a task that is about to run is charged beforehand, it may not have had yet. */
	if (t->charged_ns > ref->had_ns + AHEAD_NS)
		broken(c, "charge", "task %d was charged %llu ns, it had %llu", p->pid - 1,
		       t->charged_ns, ref->had_ns);
}

/*
 * Lemma 1: of two runnable members of a group, on one CPU, none is ahead of the other by more than it can run before
 * it is compared again, at its rate. To a slice come: for a domain its members' slices, window and grace; what a
 * timer may be late; and what a task that runs alone is not charged for until it is looked at.
 */
#define LATE_NS 4000000ULL

struct lemma {
	struct checking *checking;
	const struct group *of;
	u32 nr_tasks;
	u64 slice_ns;
	bool any;
	u64 most_ahead; /* virtual time of the one farthest ahead, less what it may be ahead */
	u64 least;
};

/* A domain weighs what its active members do: the lightest of all, while only that one is. */
static u64 lemma_weight(const struct lemma *l, const struct tree_node *n)
{
	u64 lightest = n->weight;

	if (n->kind != NODE_COOP)
		return node_weight(n);
	for (u32 i = 0; i < l->checking->nr_tasks; i++) {
		struct task *t = find_task(l->checking->tasks[i].task);

		if (t && t->weight < lightest)
			lightest = t->weight;
	}
	return lightest;
}

static u64 ahead_max_ns(const struct lemma *l, const struct tree_node *n)
{
	u64 ns = l->slice_ns + SLICE_BY_TIMER_NS + LATE_NS;
	const struct domain *d;

	if (n->kind != NODE_COOP)
		return ns;
	d = domain_of(group_of((struct tree_node *)n));
	return ns + l->slice_ns * l->nr_tasks + 2 * tunables.window_ns + d->grace_ns;
}

static void lemma_node(struct lemma *l, struct tree_node *n)
{
	u64 less;

	if (n->parent != l->of || !n->active)
		return;
	less = n->vtime - vtime_of_ns(ahead_max_ns(l, n), lemma_weight(l, n));
	l->most_ahead = l->any ? vtime_max(l->most_ahead, less) : less;
	l->least = l->any && vtime_before(l->least, n->vtime) ? l->least : n->vtime;
	l->any = true;
}

static void lemma_child(void *context, struct group *g)
{
	lemma_node(context, &g->node);
}

static void check_lemma(void *context, struct group *g)
{
	struct visiting *v = context;
	u64 slice_ns = tunables.granularity_ns > tunables.min_slice_ns ? tunables.granularity_ns :
									 tunables.min_slice_ns;
	struct lemma l = {
		.checking = v->checking,
		.of = g,
		.nr_tasks = v->checking->nr_tasks,
		.slice_ns = slice_ns,
	};

	if (g->node.kind != NODE_FAIR)
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

/* Virtual time begins where a run wants it to: near its wrap, for one. */
static void begin_vtime(u64 vtime)
{
	for (u32 i = 0; i < nr_places(); i++)
		place_at(place_number(i))->root.vmin = vtime;
}

static bool check(const struct sim_task_ref *tasks, u32 nr_tasks, bool lemma,
		  struct sim_finding *finding)
{
	struct checking c = { tasks, nr_tasks, finding, false };

	for (u32 i = 0; i < topology.nr_shards; i++)
		if (shards[i].lock.next != shards[i].lock.serving)
			broken(&c, "lock", "the lock of shard %u is held", i);
	for (u32 i = 0; i < nr_tasks && !c.broken; i++)
		check_task(&c, &tasks[i]);
	for (u32 i = 0; i < nr_places() && !c.broken; i++)
		check_place(&c, place_number(i));
	if (lemma && one_cpu && !c.broken) {
		struct visiting v = { &c, place_of_shard(0) };

		each_group(v.place, check_lemma, &v);
	}
	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++)
		if (cpu_at(cpu)->online && cpu_at(cpu)->running && !cpu_at(cpu)->running->kernel_task)
			broken(&c, "stale", "CPU %u takes a task for running that has gone", cpu);
	return c.broken;
}
