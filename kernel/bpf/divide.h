/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Beside classes: how a CPU is divided between its shard's place and those beside it, whose virtual times cannot be compared
 * there. core/division.h says what each side is due; a CPU keeps how much more than that those beside have had.
 *
 * Functions here are called with the shard's lock held.
 */
#ifndef CONSORT_DIVIDE_H
#define CONSORT_DIVIDE_H

#include "queue.h"
#include "subsets.h"

/* How much more than its part of the CPU's time a side may have had, of what is remembered. */
static inline s64 lead_max_ns(void)
{
	return tunables.granularity_ns;
}

/*
 * By one part in so many more a side may have had while the other one waits. By less, and a task that always has a claim would have
 * what is forgotten with each run; by more, and one that has a claim now and then would wait for as long as it is repaid.
 */
#define LEAD_MORE 4

/* Which part of it `one` is, of 2^16. */
static inline u64 part_of_both(u64 one, u64 other)
{
	u64 both = one + other;

	return both ? (one << 16) / both : 0;
}

/*
 * A place belongs to a side: what it wants of a CPU, of which it may have `left`, all its CPUs having `all`. `asleep`: a task
 * there that has just run, and sleeps already.
 */
static __always_inline void side_add(struct division_side *side, const struct place __arena *pl,
				     u64 left, u64 all, u64 asleep)
{
	u64 promised = weight_of_load(pl->top.load) * left / all, classes = 0;

	/* What they want is a part of what the place has of its CPUs. */
	if (pl->top.load)
		classes = pl->classes_want * left >> WEIGHT_SHIFT;
	side->promised += promised;
	side->classes += classes > promised ? classes : promised;
	side->root += (pl->root.weight_active + asleep) / (pl->nr_cpus ?: 1);
}

/* What is left of CPUs of which so much is promised to tasks that may run nowhere else. */
static __always_inline u64 left_of(u64 nr_cpus, u64 promised)
{
	u64 all = (nr_cpus ?: 1) * WEIGHT_ONE, least = all / DIVISION_ROOT_LEAST;

	return all - least > promised ? all - promised : least;
}

/* Whether the CPU's own side may go before its shard's place: that has not been kept from its part for long; and the reverse. */
static inline bool own_side_may_lead(const struct consort_cpu __arena *c)
{
	return c->own_lead_ns < lead_max_ns();
}

static inline bool shared_side_may_lead(const struct consort_cpu __arena *c)
{
	return c->own_lead_ns > -lead_max_ns();
}

/* Whether a node is below a class, in a reservation that has not had what it was promised until now. */
static __always_inline bool has_claim(struct tree_node __arena *n)
{
	n = promise_above(n);
	return n && !vtime_before(n->parent->vmin, n->vtime);
}

/* A CPU comes or goes: its shard's place has none of it, and nothing is promised beside that. */
static inline void sides_forget(struct consort_cpu __arena *c)
{
	struct place __arena *shared = &shard_at(c->shard)->place;

	shared->sides_weight -= c->own_weight;
	shared->sides_promised -= c->own_promised;
	c->own_weight = 0;
	c->own_promised = 0;
	c->own_lead_ns = 0;
}

/* What a CPU's own side has had beyond its part, by a run of a task of it or, if not `is_beside`, of the shard's place. */
core_fn lead_charge(struct consort_cpu __arena *c in_arena, u32 cpu, s64 by_ns, int is_beside)
{
	s64 bound_ns = lead_max_ns(), lead_ns = c->own_lead_ns + by_ns;

	c->own_lead_ns = lead_ns;
	if (lead_ns <= bound_ns && lead_ns >= -bound_ns)
		return 0;
	/* What the other side waits for is owed to it. */
	if (is_beside ? !!place_head(&shard_at(c->shard)->place)->ready.top : waits_beside(c, cpu))
		bound_ns += tunables.granularity_ns / LEAD_MORE;
	c->own_lead_ns = lead_ns > bound_ns ? bound_ns : lead_ns < -bound_ns ? -bound_ns : lead_ns;
	return 0;
}

/*
 * A task has run, and is about to be charged: its side has had that much. What one did not want is not owed to it later, nor to a
 * reservation what it could not use until then. Its load still counts.
 */
core_fn divide(struct task __arena *t in_arena, u64 ran_ns)
{
	struct consort_cpu __arena *c = cpu_at(t->cpu);
	struct shard __arena *s = shard_at(c->shard);
	struct division d = {};
	bool is_beside = t->place >= SHARDS_MAX;
	struct tree_node __arena *promise;
	u64 asleep = 0;
	s64 by_ns;

	/* Without reservations nothing is divided by this. */
	if (!class_table.shortest_period_ns)
		return 0;
	promise = promise_above(&t->member.node);
	if (promise && promise->parent->node.kind == NODE_PERIOD)
		period_keep_up(promise, bpf_ktime_get_ns() - ran_ns);
	if (!t->member.node.active && !promise)
		asleep = t->member.node.weight;
	side_add(&d.own, &c->place, WEIGHT_ONE, WEIGHT_ONE, is_beside ? asleep : 0);
	for (u32 i = hidden(1); s->nr_in_subsets && i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = beside(c, t->cpu, i);

		if (pl)
			side_add(&d.own, pl, WEIGHT_ONE, left_of(pl->nr_cpus, 0), 0);
	}
	s->place.sides_promised += d.own.promised - c->own_promised;
	c->own_promised = d.own.promised;
	side_add(&d.shared, &s->place, left_of(1, d.own.promised),
		 left_of(s->nr_cpus, s->place.sides_promised), is_beside ? 0 : asleep);
	division_make(&d, s->place.root.nominal_weight);
	s->place.sides_weight += d.own_weight - c->own_weight;
	c->own_weight = d.own_weight;
	/* What classes and the root weigh in the CPU's own place is what they have of the CPU: from the next charge there on. */
	c->place.root_weight = d.own_root;
	c->place.more_weight = d.own_more;
	by_ns = is_beside ? ran_ns * part_of_both(d.shared_weight, d.own_weight) >> 16 :
			    -(s64)(ran_ns * part_of_both(d.own_weight, d.shared_weight) >> 16);
	lead_charge(c, t->cpu, by_ns, is_beside);
	return 0;
}

#endif
