/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Coop: a cooperation domain's members tell when each next wants the CPU; the domain decides when, its seats how much.
 *
 * Problem  A fair share alone delays a program's events by a whole round of the others' slices.
 * Rule     Each member publishes its earliest due event and its most important best-effort event. An expired due
 *          event wins, the earliest first; else the most important best-effort event. Whoever is chosen runs in one of the
 *          domain's seats (seat.h), which pays.
 *          Members are compared by the domain's own clock, which advances by CPU time / weight of the active members. A
 *          member whose due event stays expired while it runs pays with due debt: its own virtual time, charged for such
 *          running only. That begins where the clock is when the member wakes, and is behind it by the grace at most: what it
 *          does not use is not saved up. While it is ahead of the clock by more than the grace, and by what its share may be
 *          until the event, the member's due events do not count. One that goes to sleep in due debt counts as active until
 *          that is repaid: the others would else repay theirs too soon, and a member that sleeps between due events would
 *          have more than its share.
 *          A member that has waited for PATIENCE_NS is due, whatever it published: nobody starves.
 * Bound    An honest member's due event waits for the running event of another member, and for one grace of each
 *          member that is always due; such a member gets its own share, no more (one grace and one event beyond).
 * Source   000 sections 2.1.3, 2.3.2, 2.3.3; due debt is ours: 000 lets a member that is always due starve the rest.
 *          Where its virtual time begins: start-time fair queueing (Goyal, Vin and Cheng 1996). Sleepers that count: EEVDF.
 * Limits   Of members of several accounts those that sleep in due debt do not count: each of them is entitled to another part, and
 *          their seats see to that (seat.h). Nor do they for a host that has no seats.
 *          Among members of one account best-effort keys are trusted in ORDER_PROGRAM. By progress, due events are: a
 *          member that announces none is before those that do. By service nobody is trusted. Members of other accounts lose
 *          SEAT_GIVES_NS at most (seat.h).
 */
#ifndef CORE_DECIDE_COOP_H
#define CORE_DECIDE_COOP_H

#include "order.h"

/* How long a member waits at most before it counts as due. */
#define PATIENCE_NS 1000000000ULL

/* So many due events fewer than the others a member has had at most, whatever it has slept for. */
#define SERVED_BEHIND_MAX 16

/*
 * A member goes on in another place, or has come back: virtual times there are others, its debt stays what it is.
 */
static __always_inline void member_carry_debt(struct member __arena *m,
					      const struct domain __arena *from,
					      const struct domain __arena *to)
{
	m->debt_vtime += domain_clock(to) - domain_clock(from);
}

/* A member has repaid its due debt, wakes, or leaves. */
static __always_inline void member_repays_no_more(struct domain __arena *d, struct member __arena *m)
{
	if (!m->repaying)
		return;
	m->repaying = 0;
	heap_remove(&d->repaying, &m->node.ready);
	d->repaying_weight -= m->node.ready.minor;
}

/*
 * A member that does not wait has gone to sleep, or its debt has changed. One that is demoted is in another group. The clock of a
 * domain with members of several accounts is not what each of these is entitled to: there sleepers do not count.
 */
core_fn member_repays(struct domain __arena *d in_arena, struct member __arena *m in_arena)
{
	member_repays_no_more(d, m);
	if (!m->seat || d->nr_seats > 1 || m->node.active ||
	    !vtime_before(domain_clock(d), m->debt_vtime))
		return 0;
	m->repaying = 1;
	d->repaying_weight += m->node.weight;
	heap_push(&d->repaying, &m->node.ready, m->debt_vtime, m->node.weight);
	/* It does not wait. */
	m->node.ready.queued = 0;
	return 0;
}

/* The clock moves on. */
static __always_inline void domain_clock_add(struct domain __arena *d, u64 vtime)
{
	d->group.node.vtime += vtime;
	while (can_loop) {
		struct heap_link __arena *first = d->repaying.top;

		if (!first || vtime_before(domain_clock(d), first->major))
			break;
		member_repays_no_more(d, member_of(outer_of(first, struct tree_node, ready)));
	}
}

static __always_inline void domain_await_due(struct domain __arena *d, struct member __arena *m,
					     u64 now_ns)
{
	u64 patience_ns = now_ns + PATIENCE_NS;
	u8 soon = m->due_ns < patience_ns;

	m->due_wait = !member_due_counts(m, d) ? WAITS_INDEBTED : soon ? WAITS_DUE : WAITS_PATIENT;
	if (m->due_wait == WAITS_PATIENT)
		fifo_append(&d->patient, &m->due, patience_ns);
	else if (m->due_wait == WAITS_INDEBTED)
		heap_push(&d->indebted, &m->due, member_out_of_debt_at(m, d),
			  soon ? m->due_ns : patience_ns);
	else
		heap_push(&d->due, &m->due, m->due_ns < m->awaits_ns ? m->awaits_ns : m->due_ns, 0);
}

/* Lets the due events and priorities of those count again that are out of debt. */
static __always_inline void domain_promote(struct domain __arena *d)
{
	while (can_loop) {
		struct heap_link __arena *top = d->indebted.top;
		struct member __arena *m;
		u64 major, minor;

		if (!top || vtime_before(domain_clock(d), top->major))
			break;
		m = member_of_due(top);
		heap_remove(&d->indebted, top);
		m->due_wait = WAITS_DUE;
		heap_push(&d->due, top, top->minor, 0);
		member_best_key(m, d, &major, &minor);
		heap_move(&d->group.ready, &m->node.ready, major, minor);
	}
}

/* A waiting member's due event is not waited for any more. */
static __always_inline void domain_cease_due(struct domain __arena *d, struct member __arena *m)
{
	if (m->due.queued && m->due_wait == WAITS_PATIENT)
		fifo_remove(&d->patient, &m->due);
	else if (m->due.queued)
		heap_remove(m->due_wait == WAITS_INDEBTED ? &d->indebted : &d->due, &m->due);
	m->awaits_ns = 0;
}

/* An active member begins to wait. */
static __always_inline void coop_enqueue(struct domain __arena *d, struct member __arena *m,
					 u64 now_ns)
{
	u64 major, minor;

	member_best_key(m, d, &major, &minor);
	domain_await_due(d, m, now_ns);
	member_await_turn(m, d);
	heap_push(&d->group.ready, &m->node.ready, major, minor);
}

/* A waiting member is chosen, or leaves. */
static __always_inline void coop_dequeue(struct domain __arena *d, struct member __arena *m)
{
	domain_cease_due(d, m);
	heap_remove(&d->group.ready, &m->node.ready);
}

/* The waiting member `out` is chosen, and the active member `in` waits. */
static __always_inline void coop_exchange(struct domain __arena *d, struct member __arena *out,
					  struct member __arena *in, u64 now_ns)
{
	u64 major, minor;

	domain_cease_due(d, out);
	member_best_key(in, d, &major, &minor);
	domain_await_due(d, in, now_ns);
	member_await_turn(in, d);
	if (heap_replace_only(&d->group.ready, &out->node.ready, &in->node.ready, major, minor))
		return;
	heap_push(&d->group.ready, &in->node.ready, major, minor);
	heap_remove(&d->group.ready, &out->node.ready);
}

static __always_inline void domain_wake(struct domain __arena *d, struct member __arena *m)
{
	m->asleep = 0;
	if (m->due.queued)
		heap_remove(&d->asleep, &m->due);
}

/*
 * A member sleeps until its due time: the others are told to make room for it then. It may have been awake in between without
 * a word to us: the kernel itself enqueues tasks that end, and all of them while it bypasses the scheduler.
 */
static __always_inline void domain_sleep(struct domain __arena *d, struct member __arena *m)
{
	if (m->asleep)
		domain_wake(d, m);
	m->asleep = 1;
	if (m->due_ns != NEVER_NS)
		heap_push(&d->asleep, &m->due, m->due_ns, 0);
}

/*
 * Until a member's next due event its share is as much as this at most, if the domain has a whole CPU: its next event counts
 * though the debt for this one is not repaid yet, as far as that may be by then.
 */
static __always_inline u64 member_debt_credit(const struct domain __arena *d,
					      const struct member __arena *m, u64 debt_ns,
					      u64 now_ns)
{
	u64 rest_ns, weight = domain_clock_weight(d);

	if (m->due_ns <= now_ns)
		return 0;
	rest_ns = m->due_ns - now_ns;
	if (rest_ns > CHARGE_MAX_NS)
		rest_ns = CHARGE_MAX_NS;
	if (weight > m->node.weight)
		rest_ns = rest_ns * m->node.weight / weight;
	return vtime_of_ns(rest_ns < debt_ns ? rest_ns : debt_ns, m->node.weight);
}

/*
 * Charges due debt for the part of a run during which the due event that it began with was expired: it may be due as often as
 * its share of what the domain has allows.
 */
static __always_inline void domain_charge_due(struct domain __arena *d, struct member __arena *m,
					      u64 ran_ns, u64 now_ns)
{
	u64 due_ns = m->run_due_ns, debt_ns, least;

	m->run_due_ns = m->due_ns;
	if (due_ns >= now_ns)
		return;
	debt_ns = now_ns - due_ns;
	if (debt_ns > ran_ns)
		debt_ns = ran_ns;
	least = domain_clock(d) - vtime_of_ns(d->grace_ns, m->node.weight);
	m->debt_vtime = vtime_max(m->debt_vtime, least) + vtime_of_ns(debt_ns, m->node.weight);
	member_repays(d, m);
	m->debt_credit = member_debt_credit(d, m, debt_ns, now_ns);
}

/*
 * A member has had `ns` of CPU time: the domain's clock moves on, and the least service of its members with it. Who pays
 * for it is its seat's affair.
 */
static __always_inline void coop_charge(struct domain __arena *d, struct member __arena *m, u64 ns)
{
	struct group __arena *g = &d->group;
	struct tree_node __arena *n = &m->node, *first = group_first(g);
	u64 least;

	n->vtime += vtime_of_ns(ns, n->weight);
	domain_clock_add(d, vtime_of_ns(ns, domain_clock_weight(d) ?: n->weight));
	least = first && vtime_before(first->vtime, n->vtime) ? first->vtime : n->vtime;
	g->vmin = vtime_max(g->vmin, least);
}

/*
 * A member becomes active. What the domain owes one of its members, or a member the domain, is repaid at its rate while
 * nobody of it wants the CPU, too.
 */
static __always_inline void coop_wake(struct domain __arena *d, struct member __arena *m, u64 now_ns)
{
	struct group __arena *g = &d->group;
	u64 idle_ns;

	if (!g->nr_active && d->idle_since_ns) {
		idle_ns = now_ns - d->idle_since_ns;
		domain_clock_add(d, vtime_of_ns(idle_ns, m->node.weight));
	}
	member_repays_no_more(d, m);
	m->debt_vtime = vtime_max(m->debt_vtime, domain_clock(d));
	if (vtime_before(m->node.vtime, g->vmin)) {
		m->turn_vtime += g->vmin - m->node.vtime;
		m->node.vtime = g->vmin;
	}
	if (m->served + SERVED_BEHIND_MAX < d->served_least)
		m->served = d->served_least - SERVED_BEHIND_MAX;
	m->node.active = 1;
	g->nr_active++;
	g->weight_active += m->node.weight;
}

/* A member that does not wait goes to sleep, or leaves. */
static __always_inline void coop_rest(struct domain __arena *d, struct member __arena *m, u64 now_ns)
{
	m->node.active = 0;
	d->group.nr_active--;
	d->group.weight_active -= m->node.weight;
	member_repays(d, m);
	if (!d->group.nr_active)
		d->idle_since_ns = now_ns;
}

/* Of the waiting members whose due events count, the one that is due first; NULL if there is none. */
static __always_inline struct heap_link __arena *domain_first_due(const struct domain __arena *d)
{
	struct heap_link __arena *due = d->due.top, *patient = d->patient.first;

	return !due || (patient && heap_before(patient, due)) ? patient : due;
}

/* The waiting member whose due event expired first; for a CPU that `is_free` also one that awaits such. NULL if none has. */
static __always_inline struct member __arena *domain_expired(struct domain __arena *d, int is_free,
							     u64 now_ns)
{
	struct heap_link __arena *top = domain_first_due(d);
	struct member __arena *m = top ? member_of_due(top) : NULL;

	if (m && top->major > now_ns && !(is_free && m->awaits_ns && m->due_ns <= now_ns))
		return NULL;
	return m;
}

/* The member that runs next: one of those that wait, or `running` (NULL if none) which could go on. */
static __always_inline struct member __arena *coop_first(struct domain __arena *d,
							 struct member __arena *running, u64 now_ns)
{
	struct member __arena *m = domain_expired(d, 1, now_ns);
	struct tree_node __arena *first = group_first(&d->group);
	u64 major, minor;

	/* How many events a member has had that announces none any more is not where the others are. */
	if (first && d->order == ORDER_PROGRESS && d->served_least < member_of(first)->served &&
	    member_of(first)->due_ns != NEVER_NS)
		d->served_least = member_of(first)->served;
	if (running && running->due_ns <= now_ns && member_due_counts(running, d))
		return m && m->due.major < running->due_ns ? m : running;
	if (m)
		return m;
	if (!first)
		return running;
	if (!running)
		return domain_begin_turn(d, member_of(first));
	member_best_key(running, d, &major, &minor);
	return heap_turn_before(first->ready.major, first->ready.minor, first->ready.turn, major,
				minor, member_turn(running)) ?
		       domain_begin_turn(d, member_of(first)) :
		       running;
}

/*
 * When a running member is to ask who is next, which it cannot know itself. It does so when another one is before it; by service,
 * once it has had more than that one by `lead_ns`; by progress, when its own due event is over. Members whose order is the
 * program's own compare by themselves; whose turn it is where keys are equal, the next choice says.
 */
static __always_inline u64 coop_asks_at_ns(struct domain __arena *d, const struct member __arena *m,
					   u64 now_ns, u64 lead_ns)
{
	struct tree_node __arena *first = group_first(&d->group);
	u64 major, minor;

	if (d->order == ORDER_PROGRAM || !first)
		return NEVER_NS;
	if (d->order == ORDER_SERVICE)
		return now_ns + vtime_to_ns(first->vtime + vtime_of_ns(lead_ns, m->node.weight) -
						    m->node.vtime,
					    m->node.weight);
	member_best_key(m, d, &major, &minor);
	if (heap_key_before(first->ready.major, first->ready.minor, major, minor))
		return now_ns;
	return m->due_ns > now_ns ? m->due_ns : now_ns;
}

/*
 * The member for which the domain may be to borrow, its `next`: of those that wait, as only these can be served, the one that is
 * due first; else of those that sleep. NULL: nobody is known to be due.
 */
core_fn domain_look_next(struct domain __arena *d in_arena)
{
	struct heap_link __arena *first = domain_first_due(d);

	if (!first)
		first = d->asleep.top;
	d->next = first ? member_of_due(first) : NULL;
	return 0;
}

/*
 * The same for the one that is due next, whether it waits or sleeps. While the first that sleeps should be awake by now, those
 * that sleep are not waited for.
 */
core_fn domain_look_soon(struct domain __arena *d in_arena, u64 now_ns)
{
	struct heap_link __arena *first = domain_first_due(d), *asleep = d->asleep.top;

	if (asleep && asleep->major > now_ns && (!first || asleep->major < first->major))
		first = asleep;
	d->next = first ? member_of_due(first) : NULL;
	return 0;
}

/* The next time at which a member other than the running one wants the CPU; NEVER_NS if none is known. */
static __always_inline u64 domain_next_due_ns(const struct domain __arena *d)
{
	struct heap_link __arena *first = domain_first_due(d);
	u64 due_ns = first ? first->major : NEVER_NS;

	if (d->asleep.top && d->asleep.top->major < due_ns)
		due_ns = d->asleep.top->major;
	return due_ns;
}

#endif
