/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of what has become of what was seen at an earlier look: the lag that a task takes through its sleep, how long it
 * has waited, the clock of a CPU's own place. Included once, after check.h.
 */

/* ---- sleepers: nobody is owed more when it is back than when it went to sleep (core/decide/fair.h) ---- */

/* What is known of a task since it was last seen. */
struct past {
	const struct task *of;
	const struct group *group;
	const struct group_set *home; /* its account and its domain, wherever it is */
	const struct domain_set *set;
	u64 charged_ns;
	u64 weight;
	u64 vtime;
	u64 last_vtime; /* the least of the others that were there when it went to sleep, at most */
	u64 group_vmin; /* at the last look */
	u64 since_ns; /* when it began to wait */
	u64 held; /* as given */
	u32 place;
	u32 nr_lost; /* by its CPU: whoever it could not hand over waits anew */
	bool slept; /* was asleep, beside others, and nothing has changed about it since */
	bool was_held; /* by a limit meanwhile: it keeps its virtual time, whatever the others have had */
	bool active;
	bool waited;
};

/* The same of a place beside its shard's. */
struct past_place {
	u64 begins; /* where it would have begun at the last look */
	u32 nr_active;
	bool known;
};

static struct past_place past_places[PLACES_MAX];

/* Who ran on one CPU, and the least of the others of its group. */
static const struct task *past_running;
static u64 past_beside;

static struct past *pasts;
static u32 nr_pasts;

static void forget_past(void)
{
	if (pasts)
		memset(pasts, 0, nr_pasts * sizeof(*pasts));
	memset(past_places, 0, sizeof(past_places));
	past_running = NULL;
}

static struct past *past_of(u32 number)
{
	if (number >= nr_pasts) {
		u32 more = 2 * number + 64;

		pasts = realloc(pasts, more * sizeof(*pasts));
		if (!pasts)
			abort();
		memset(pasts + nr_pasts, 0, (more - nr_pasts) * sizeof(*pasts));
		nr_pasts = more;
	}
	return &pasts[number];
}

/* The least virtual time of a group's active members but one; false: there is none. */
struct least {
	const struct group *of;
	const struct tree_node *but;
	u64 vtime;
	bool any;
};

static void least_node(struct least *l, const struct tree_node *n)
{
	if (n->parent != l->of || n == l->but || !n->active)
		return;
	l->vtime = l->any && vtime_before(l->vtime, n->vtime) ? l->vtime : n->vtime;
	l->any = true;
}

static void least_group(void *context, struct group *g)
{
	least_node(context, &g->node);
	if (g->node.kind != NODE_COOP)
		return;
	for (struct seat *s = domain_of(g)->seats; s; s = s->next)
		least_node(context, &s->node);
}

static bool least_vtime(const struct checking *c, const struct task *but, u64 *vtime)
{
	struct least l = { .of = but->member.node.parent, .but = &but->member.node };

	each_group(but->place, least_group, &l);
	for (u32 i = 0; i < c->nr_tasks; i++) {
		const struct task *t = find_task(c->tasks[i].task);

		if (t)
			least_node(&l, &t->member.node);
	}
	*vtime = l.vtime;
	return l.any;
}

/* Going to sleep and waking takes a task that long, which it is charged for. */
#define SWITCH_MAX_NS 10000

/* By how much virtual time a task is to be behind its group's if it was behind `first` when it went to sleep. */
static u64 lag_after(const struct past *old, u64 first)
{
	u64 most = vtime_of_ns(LAG_MAX_NS + old->group->seats_ahead_ns, old->weight);
	u64 lag = first - old->vtime;

	return (s64)lag <= 0 ? 0 : lag < most ? lag : most;
}

/* The task is back, and has not run yet. */
static void check_lag(struct checking *c, const struct past *old, const struct task *t, u32 number)
{
	const struct tree_node *n = &t->member.node;
	u64 round = vtime_of_ns(1000 + t->charged_ns - old->charged_ns, n->weight);
	u64 earliest = vtime_max(old->vtime, old->group_vmin - lag_after(old, old->last_vtime));

	if (old->was_held)
		earliest = old->vtime;
	if (vtime_before(n->vtime + round, earliest))
		broken(c, "lag", "task %u is owed %llu us more than when it went to sleep", number,
		       vtime_to_ns(earliest - n->vtime, n->weight) / 1000);
}

static bool is_same(const struct past *old, const struct task *t)
{
	const struct tree_node *n = &t->member.node;

	return old->of == t && old->group == n->parent && old->weight == n->weight &&
	       old->place == t->place;
}

/* The one that ran has gone to sleep since the last look. */
static void begin_sleep(struct checking *c, struct past *old, const struct task *t)
{
	u64 now;

	old->slept = past_running == t && is_same(old, t) && least_vtime(c, t, &now);
	if (!old->slept)
		return;
	old->vtime = t->member.node.vtime;
	old->last_vtime = vtime_max(vtime_max(now, past_beside), old->group_vmin);
	old->last_vtime = vtime_max(old->last_vtime, t->member.node.parent->vmin);
}

/* On one CPU: there only the choice moves a group's virtual time. */
static void look_at_sleeper(struct checking *c, struct past *old, const struct task *t, u32 number)
{
	const struct tree_node *n = &t->member.node;
	bool same = is_same(old, t) && t->charged_ns - old->charged_ns <= SWITCH_MAX_NS;

	if (n->active) {
		if (same && old->slept)
			check_lag(c, old, t, number);
		old->slept = false;
	} else if (old->of == t && old->active) {
		begin_sleep(c, old, t);
		old->was_held = t->held_by;
	} else if (t->held_by) {
		old->was_held = true;
	} else if (!same || old->vtime != n->vtime) {
		old->slept = false;
	}
}

static void look_at_running(struct checking *c)
{
	const struct task *t = cpu_at(0)->running;

	past_running = t && t->kernel_task && least_vtime(c, t, &past_beside) ? t : NULL;
}

static void check_sleeper(struct checking *c, struct past *old, const struct task *t, u32 number)
{
	const struct tree_node *n = &t->member.node;

	if (!one_cpu || !c->bounds.seats_stay || in_domain(t) || n->parent->node.kind != NODE_FAIR)
		old->slept = false;
	else
		look_at_sleeper(c, old, t, number);
}

/* ---- waiters: a task begins to wait anew only when it has run, or was changed (core/live.h) ---- */

static void check_patience(struct checking *c, struct past *old, const struct task *t,
			   const struct sim_task_ref *ref)
{
	u64 since_ns = t->member.waiter.since_ns;
	bool waits = t->member.node.ready.queued, same;
	u32 nr_lost = 0;

	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++)
		nr_lost += counters[cpu].lost;
	/* It is the scheduler's all the while, which has not tried to give it back, but may have taken it elsewhere. */
	same = waits && old->waited && old->of == t && old->home == t->home &&
	       old->set == (in_domain(t) ? t->set : NULL) && ref->held == old->held;
	if (c->bounds.weights_stay && c->bounds.seats_stay && same && old->nr_lost == nr_lost &&
	    since_ns > old->since_ns)
		broken(c, "waiters", "task %u is taken for one that has waited for %llu us less",
		       ref->task->sim_task, (since_ns - old->since_ns) / 1000);
	old->waited = waits;
	old->since_ns = since_ns;
	old->nr_lost = nr_lost;
	old->held = ref->held;
}

/* ---- own clocks: that of a place beside its shard's is not behind its CPUs' when somebody comes to it (queue.h) ---- */

/*
 * Where a place may begin to which a task comes on one CPU: how busy that is changes between two looks, and so does which of
 * its subsets it serves, which may be owed something.
 */
static u64 cpu_clock(struct consort_cpu *c, u32 cpu)
{
	u64 least = place_clock(&shard_at(c->shard)->place);

	if (vtime_before(c->clock, least))
		least = c->clock;
	for (u32 i = 1; i <= SUBSETS; i++) {
		const struct place *pl = beside(c, cpu, i);

		if (pl && pl->root.nr_active && vtime_before(place_clock(pl), least))
			least = place_clock(pl);
	}
	return least;
}

/* Where a place would begin, on that of its CPUs where this is earliest. */
static u64 place_begins(u32 place)
{
	struct shard *s = shard_at(shard_of_place(place));
	u64 least;

	if (is_own(place))
		return cpu_clock(cpu_at(place - SHARDS_MAX), place - SHARDS_MAX);
	least = place_clock(&s->place);
	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++) {
		struct consort_cpu *c = cpu_at(cpu);

		if (c->shard == shard_of_place(place) && vtime_before(cpu_clock(c, cpu), least))
			least = cpu_clock(c, cpu);
	}
	return least;
}

static void check_own_clock(struct checking *c, u32 i)
{
	const struct place *own = place_at(nth_place(i));
	struct past_place *old = &past_places[i];
	u32 nr_active = own->root.nr_active;
	u64 begins = place_begins(nth_place(i)), least = old->begins;

	if (vtime_before(begins, least))
		least = begins;
	/* Several events may have been since the last look, and the CPU's clock may have gone back by a place's course. */
	least -= clock_slack(own) + clock_slack(&shard_at(shard_of_place(nth_place(i)))->place);
	if (old->known && !old->nr_active && nr_active && vtime_before(place_clock(own), least))
		broken(c, "own-clock", "place %u begins %llu us of weight 1 behind its CPUs'",
		       nth_place(i), vtime_to_ns(least - place_clock(own), WEIGHT_ONE) / 1000);
	old->begins = begins;
	old->nr_active = nr_active;
	old->known = true;
}

static void remember(struct past *old, const struct task *t)
{
	const struct tree_node *n = &t->member.node;

	old->of = t;
	old->place = t->place;
	old->active = n->active;
	old->group = n->parent;
	old->home = t->home;
	old->set = in_domain(t) ? t->set : NULL;
	old->group_vmin = n->parent->vmin;
	old->weight = n->weight;
	old->charged_ns = t->charged_ns;
}

static void check_past(struct checking *c)
{
	for (u32 i = 0; i < c->nr_tasks && !c->broken; i++) {
		const struct sim_task_ref *ref = &c->tasks[i];
		const struct task *t = find_task(ref->task);
		struct past *old = past_of(ref->task->sim_task);

		if (t && t->on_the_way)
			continue;
		if (!t) {
			old->of = NULL;
			continue;
		}
		check_patience(c, old, t, ref);
		check_sleeper(c, old, t, ref->task->sim_task);
		remember(old, t);
	}
	if (one_cpu)
		look_at_running(c);
	for (u32 i = topology.nr_shards; !one_cpu && i < nr_places() && !c->broken; i++)
		check_own_clock(c, i);
}
