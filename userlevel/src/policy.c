/* SPDX-License-Identifier: MIT */
/* See policy.h. All indices are below the number that was loaded, and come from the host's own loops. */
#include "nice.h"
#include "policy.h"
#include "slice.h"

struct ul_policy {
	struct domain domain;
	u32 nr;
	struct member members[];
};

_Static_assert(sizeof(struct ul_entry) == 96, "policy.rs has the same layout");
_Static_assert(sizeof(struct ul_domain) == 56, "policy.rs has the same layout");
_Static_assert(sizeof(struct ul_told) == 32, "policy.rs has the same layout");

u64 ul_bytes(u32 nr)
{
	return sizeof(struct ul_policy) + nr * sizeof(struct member);
}

u32 ul_weight_of_nice(s32 nice)
{
	return weight_of_nice(nice);
}

static void load_domain(struct domain *d, const struct ul_domain *from)
{
	*d = (struct domain){
		.served_least = from->served_least,
		.turn_least = from->turn_least,
		.idle_since_ns = from->idle_since_ns,
		.grace_ns = from->grace_ns,
		.order = from->order,
	};
	d->group.node.kind = NODE_COOP;
	d->group.node.weight = WEIGHT_ONE;
	d->group.node.vtime = from->clock;
	d->group.vmin = from->vmin;
}

static void load_member(struct domain *d, struct member *m, const struct ul_entry *e)
{
	*m = (struct member){
		.due_ns = e->due_ns,
		.key = e->key,
		.priority = e->priority,
		.debt_vtime = e->debt_vtime,
		.served = e->served,
		.turn_ns = e->turn_ns,
		.turn_vtime = e->turn_vtime,
		.turn_from = e->turn_from,
		.run_due_ns = e->run_due_ns,
	};
	m->node.parent = &d->group;
	m->node.weight = e->weight;
	m->node.vtime = e->vtime;
	if (e->state != UL_RUNNING && e->state != UL_WAITING)
		return;
	m->node.active = 1;
	d->group.nr_active++;
	d->group.weight_active += e->weight;
}

/* Those that wait are to be in `waiting` by when they began to: their patience ends in that order. */
void ul_load(struct ul_policy *p, const struct ul_domain *from, const struct ul_entry *entries,
	     u32 nr, const u32 *waiting, u32 nr_waiting)
{
	struct domain *d = &p->domain;

	p->nr = nr;
	load_domain(d, from);
	for (u32 i = 0; i < nr; i++)
		load_member(d, &p->members[i], &entries[i]);
	for (u32 i = 0; i < nr_waiting; i++)
		coop_enqueue(d, &p->members[waiting[i]], entries[waiting[i]].since_ns);
	for (u32 i = 0; i < nr; i++)
		if (entries[i].state == UL_ASLEEP)
			domain_sleep(d, &p->members[i]);
	domain_promote(d);
}

void ul_save(const struct ul_policy *p, struct ul_domain *to, struct ul_entry *entries)
{
	to->clock = p->domain.group.node.vtime;
	to->vmin = p->domain.group.vmin;
	to->served_least = p->domain.served_least;
	to->turn_least = p->domain.turn_least;
	to->idle_since_ns = p->domain.idle_since_ns;
	for (u32 i = 0; i < p->nr; i++) {
		const struct member *m = &p->members[i];
		struct ul_entry *e = &entries[i];

		e->due_ns = m->due_ns;
		e->key = m->key;
		e->priority = m->priority;
		e->vtime = m->node.vtime;
		e->debt_vtime = m->debt_vtime;
		e->served = m->served;
		e->turn_ns = m->turn_ns;
		e->turn_vtime = m->turn_vtime;
		e->turn_from = m->turn_from;
		e->run_due_ns = m->run_due_ns;
	}
}

/* A member that does not wait takes over what it published, and pays for what it ran. */
void ul_publish(struct ul_policy *p, u32 i, u64 due_ns, u32 priority, u64 key, u64 ran_ns,
		u64 now_ns)
{
	struct member *m = &p->members[i];

	if (ran_ns && m->node.active)
		coop_charge(&p->domain, m, ran_ns);
	member_publish(m, &p->domain, due_ns, priority, key, now_ns);
	if (m->node.active)
		domain_charge_due(&p->domain, m, ran_ns, now_ns);
	else
		m->run_due_ns = due_ns;
	domain_promote(&p->domain);
}

/* A member that sleeps, or was not there, becomes active; it does not wait yet. */
void ul_wake(struct ul_policy *p, u32 i, u64 now_ns)
{
	domain_wake(&p->domain, &p->members[i]);
	coop_wake(&p->domain, &p->members[i], now_ns);
}

/* An active member that does not wait is away; if it sleeps, until its due time. */
void ul_rest(struct ul_policy *p, u32 i, u32 sleeps, u64 now_ns)
{
	coop_rest(&p->domain, &p->members[i], now_ns);
	if (sleeps)
		domain_sleep(&p->domain, &p->members[i]);
}

void ul_wait(struct ul_policy *p, u32 i, u64 since_ns)
{
	coop_enqueue(&p->domain, &p->members[i], since_ns);
}

void ul_take(struct ul_policy *p, u32 i)
{
	struct member *m = &p->members[i];

	coop_dequeue(&p->domain, m);
	m->run_due_ns = m->due_ns;
}

/* Who runs next: one of those that wait, or `running`, below 0 if nobody could go on. Below 0: nobody. */
s32 ul_first(struct ul_policy *p, s32 running, u64 now_ns)
{
	struct member *first =
		coop_first(&p->domain, running < 0 ? NULL : &p->members[running], now_ns);

	return first ? first - p->members : -1;
}

/* What a running member is told of the others. */
void ul_told(struct ul_policy *p, u32 i, u64 now_ns, u64 granularity_ns, u64 min_slice_ns,
	     struct ul_told *told)
{
	struct domain *d = &p->domain;
	const struct member *m = &p->members[i];
	struct tree_node *best = group_first(&d->group);
	u64 slice = slice_ns(granularity_ns, min_slice_ns, d->group.nr_active);
	u64 asks_ns = coop_asks_at_ns(d, m, now_ns, slice);

	told->other_due_ns = domain_next_due_ns(d);
	told->yield_by_ns = asks_ns < told->other_due_ns ? asks_ns : told->other_due_ns;
	told->other_priority = best ? member_of(best)->priority : PRIORITY_NONE;
	told->other_key = best ? member_of(best)->key : 0;
	told->reserved = 0;
}
