/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of the scheduler's own state that hold whenever nobody is inside it: the shape of queues, sums, and whose each
 * task is. Included once, after the scheduler.
 *
 * Every sum is made anew from the tasks, and compared with what the scheduler keeps up to date.
 */

/* What is looked at, and where a broken rule is written. */
struct checking {
	const struct sim_task_ref *tasks;
	u32 nr_tasks;
	struct sim_bounds bounds;
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

/* The number of links in a heap, each in its place; -1 if it is broken. */
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

/* Calls `visit` for each group of a place: the root's, the top's, the cgroups', the classes', the domains' that are not empty there. */
static void each_group(u32 place, void (*visit)(void *context, struct group *g), void *context)
{
	visit(context, &place_at(place)->root);
	visit(context, &place_at(place)->top);
	for (u32 i = 0; i < sim_map_slots(&group_sets); i++) {
		u64 *at = sim_map_slot(&group_sets, i);
		struct group_set *set = at ? (struct group_set *)*at : NULL;

		if (set && set->parent && set->id == *(u64 *)sim_map_slot_key(&group_sets, i))
			visit(context, group_in(set, place));
	}
	for (u32 id = 0; id < CLASSES_MAX; id++) {
		struct class_set *class = find_class(id);

		if (class)
			visit(context, group_in(&class->set, place));
	}
	for (u32 id = 1; id <= sim_reservations_max; id++) {
		struct reservation *r = find_reservation(id);

		if (r)
			visit(context, group_in(&r->set, place));
	}
	for (u32 i = occupied_from(place); i < occupied_to[place_index(place)]; i++)
		visit(context, occupied[i]);
}

/* ---- sums, made anew: of each group, found by its address ---- */

static u64 run_max_ns(const struct checking *c, const struct tree_node *n);
static u64 borrow_max_ns(const struct checking *c, const struct domain *d);

struct sum {
	const struct group *of; /* NULL: unused */
	u32 nr_active;
	u32 nr_waiting;
	u64 weight;
	u64 load; /* of its active tasks, and of the accounts in it */
	/* Of all members, active or not. A domain among them weighs what its members do. */
	u32 nr_all;
	u64 weight_all;
	u64 in_flight_ns;
	u64 lightest;
	u64 run_max_ns; /* of the group that may run longest before it is compared, see bounds.h */
	u64 borrow_max_ns; /* by which due events of a domain that has a seat below may put the group ahead */
};

static struct sum *sums;
static u32 sums_mask;

static struct sum *sum_of(const struct group *g)
{
	u64 mixed = (u64)g * 0x9e3779b97f4a7c15ULL;
	u32 i = mixed >> 32 & sums_mask;

	while (sums[i].of && sums[i].of != g)
		i = (i + 1) & sums_mask;
	return &sums[i];
}

/* Room for twice the groups that there may be. */
static void forget_sums(u32 nr_groups)
{
	u32 size = 64;

	while (size < 2 * nr_groups)
		size *= 2;
	if (size > sums_mask + 1 || !sums) {
		free(sums);
		sums = malloc(size * sizeof(*sums));
		if (!sums)
			abort();
		sums_mask = size - 1;
	}
	memset(sums, 0, (sums_mask + 1ULL) * sizeof(*sums));
}

static void add_node(const struct tree_node *n)
{
	struct sum *sum;

	if (!n->parent)
		return;
	sum = sum_of(n->parent);
	sum->of = n->parent;
	if (n->active) {
		sum->nr_active++;
		sum->weight += n->weight;
	}
	sum->nr_waiting += n->ready.queued;
	sum->nr_all++;
	if (n->kind == NODE_TASK && (!sum->lightest || n->weight < sum->lightest))
		sum->lightest = n->weight;
	/* A seat among them weighs what all of its domain's members there do. */
	if (n->kind != NODE_SEAT)
		sum->weight_all += n->weight;
}

/* What a domain's members of an account weigh, active or not. */
static u64 seat_weight_all(const struct seat *s)
{
	u64 weight = 0;

	for (u32 i = first_seated(s); i < nr_seated && seated[i].seat == s; i++)
		if (seated[i].is_here)
			weight += seated[i].task->member.node.weight;
	return weight;
}

static void add_group(void *context, struct group *g)
{
	add_node(&g->node);
	if (g->node.kind != NODE_COOP)
		return;
	for (struct seat *s = domain_of(g)->seats; s; s = s->next) {
		add_node(&s->node);
		sum_of(s->node.parent)->weight_all += seat_weight_all(s);
	}
}

/* What each CPU's running task has in flight, and the accounts above it. */
static void add_flights(struct checking *c)
{
	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++) {
		const struct consort_cpu *state = cpu_at(cpu);

		if (!state->flight_ns)
			continue;
		if (!state->running)
			broken(c, "flight", "CPU %u has %llu ns in flight, and runs nobody", cpu,
			       state->flight_ns);
		for (struct group *g = state->flight_in; g->level; g = g->node.parent) {
			struct sum *sum = sum_of(g);

			sum->of = g;
			sum->in_flight_ns += state->flight_ns;
		}
	}
}

struct visiting {
	struct checking *checking;
	u32 place;
};

static void check_group(void *context, struct group *g)
{
	struct visiting *v = context;
	struct checking *c = v->checking;
	const struct sum *sum = sum_of(g);
	int links = check_links(c, g->ready.top, NULL, 0);
	int ahead = links < 0 ? -1 : check_links(c, g->ahead.top, NULL, 0);

	if (ahead < 0)
		return;
	if (ahead && !links)
		broken(c, "sums", "of %d waiting members of a group of place %u none is ready",
		       ahead, v->place);
	links += ahead;
	if (group_has_periods(g) && sum->weight_all != g->weight_all)
		broken(c, "sums",
		       "a group of place %u counts a weight of %llu, its members have %llu",
		       v->place, g->weight_all, sum->weight_all);
	if (sum->nr_active != g->nr_active || sum->weight != g->weight_active)
		broken(c, "sums",
		       "a group of place %u at level %u counts %u active members of weight %llu, "
		       "there are %u of %llu",
		       v->place, g->level, g->nr_active, g->weight_active, sum->nr_active,
		       sum->weight);
	if (sum->in_flight_ns != g->in_flight_ns)
		broken(c, "flight",
		       "a group of place %u at level %u counts %llu ns in flight, there are %llu",
		       v->place, g->level, g->in_flight_ns, sum->in_flight_ns);
	if (sum->nr_waiting != (u32)links)
		broken(c, "sums", "a group of place %u has %d links for %u waiting members",
		       v->place, links, sum->nr_waiting);
}

static void check_place(struct checking *c, u32 place, u32 nr_runnable)
{
	struct place *pl = place_at(place);
	struct visiting v = { c, place };

	each_group(place, check_group, &v);
	if (check_links(c, pl->due.top, NULL, 0) < 0)
		return;
	if (nr_runnable != pl->nr_runnable)
		broken(c, "sums", "place %u counts %u runnable tasks, there are %u", place,
		       pl->nr_runnable, nr_runnable);
}

static void check_waiting(struct checking *c, u32 shard, u32 nr_waiting)
{
	u32 counted = shard_at(shard)->nr_waiting;

	if (nr_waiting != counted)
		broken(c, "sums", "shard %u counts %u waiting tasks, there are %u", shard, counted,
		       nr_waiting);
}

static void note_run_max(const struct checking *c, const struct tree_node *n)
{
	struct sum *sum = n->parent ? sum_of(n->parent) : NULL;
	u64 ns = sum ? run_max_ns(c, n) : 0;

	if (sum && ns > sum->run_max_ns)
		sum->run_max_ns = ns;
}

/* What due events do to a seat, or to who was demoted, they do to every account above it. */
static void note_borrow_max(struct group *account, u64 ns)
{
	for (; account; account = account->node.parent) {
		struct sum *sum = sum_of(account);

		sum->of = account;
		if (ns > sum->borrow_max_ns)
			sum->borrow_max_ns = ns;
	}
}

static void note_borrowing(void *context, struct group *g)
{
	if (g->node.kind != NODE_COOP)
		return;
	for (struct seat *s = domain_of(g)->seats; s; s = s->next)
		note_borrow_max(s->node.parent, borrow_max_ns(context, domain_of(g)));
}

/* How long those may run that are in a group. */
static void add_run_max(void *context, struct group *g)
{
	note_run_max(context, &g->node);
	if (g->node.kind != NODE_COOP)
		return;
	for (struct seat *s = domain_of(g)->seats; s; s = s->next)
		note_run_max(context, &s->node);
}

static void check_places(struct checking *c)
{
	u32 nr_groups = 2 + sim_map_slots(&group_sets) + CLASSES_MAX + sim_reservations_max;
	static u32 nr_runnable[PLACES_MAX], nr_waiting[SHARDS_MAX];

	forget_sums(nr_groups * nr_places() + find_occupied(c->tasks, c->nr_tasks));
	find_seated(c->tasks, c->nr_tasks);
	memset(nr_runnable, 0, sizeof(nr_runnable));
	memset(nr_waiting, 0, sizeof(nr_waiting));
	for (u32 i = 0; i < nr_places(); i++)
		each_group(nth_place(i), add_group, c);
	for (u32 i = 0; i < c->nr_tasks; i++) {
		struct task *t = find_task(c->tasks[i].task);

		if (!t)
			continue;
		add_node(&t->member.node);
		nr_runnable[place_index(t->place)] += t->member.node.active;
		nr_waiting[shard_of_place(t->place)] += t->member.node.ready.queued;
	}
	add_flights(c);
	for (u32 i = 0; i < nr_places(); i++)
		each_group(nth_place(i), note_borrowing, c);
	for (u32 i = 0; i < c->nr_tasks; i++) {
		struct task *t = find_task(c->tasks[i].task);

		if (t && t->set && t->demoted && !t->on_the_way)
			note_borrow_max(t->member.node.parent,
					borrow_max_ns(c, domain_in(t->set, t->place)));
	}
	for (u32 i = 0; i < nr_places(); i++)
		each_group(nth_place(i), add_run_max, c);
	for (u32 i = 0; i < nr_places() && !c->broken; i++)
		check_place(c, nth_place(i), nr_runnable[i]);
	for (u32 i = 0; i < topology.nr_shards && !one_cpu && !c->broken; i++)
		check_waiting(c, i, nr_waiting[i]);
}

#include "held.h"

/* ---- tasks ---- */

#define AHEAD_NS 8000000ULL

static void check_task(struct checking *c, const struct sim_task_ref *ref)
{
	const struct task_struct *p = ref->task;
	struct task *t = find_task(p);

	if (!t) {
		if (ref->is_held)
			broken(c, "lost-task", "task %u is held, but has no state", p->sim_task);
		return;
	}
	check_held(c, t, ref);
	if (ref->is_held && !t->member.node.ready.queued && !t->held_by)
		broken(c, "lost-task", "task %u was given to the scheduler, and is in no queue",
		       p->sim_task);
	if (!ref->is_held && !ref->was_overtaken && t->member.node.ready.queued)
		broken(c, "two-places",
		       "task %u waits in a queue, and was not given to the scheduler", p->sim_task);
	if (t->member.node.ready.queued && !t->member.node.active)
		broken(c, "sums", "task %u waits and is not active", p->sim_task);
	if (t->on_the_way ? t->member.node.active :
	    in_domain(t)  ? t->member.node.parent != &domain_in(t->set, t->place)->group ||
				   t->member.seat->node.parent != group_in(t->home, t->place) :
			   t->member.node.parent != group_in(t->home, t->place))
		broken(c, "tree", "task %u is not below its group", p->sim_task);
	/* What a task that is about to run is charged beforehand, it may not have had yet; nor what its CPU paused for. */
	if (t->charged_ns > ref->had_ns + AHEAD_NS + c->bounds.late_ns)
		broken(c, "charge", "task %u was charged %llu ns, it had %llu", p->sim_task,
		       t->charged_ns, ref->had_ns);
}
