/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Seats: how a domain takes part in the accounts of its members.
 *
 * Problem  Joining a domain must neither gain nor cost CPU time, for members of whatever accounts, and for the plain tasks
 *          beside them.
 * Rule     A domain has one seat in each account in which it has members: a member of that account's group, whose weight is
 *          the sum of its own members' weights there. A choice that comes to a seat is filled with whichever member of the
 *          domain its decision function names; the seat that was picked pays.
 *          A member that goes to sleep while its seat is ahead of the account's minimum owes: its weight stays counted until
 *          the minimum has come to where the seat was. So members that take turns have the share of all of them.
 *          When a weight comes or goes, the seat's lead stays what it is as CPU time; a member that leaves takes its part
 *          of the lead along, one that joins brings its own.
 * Bound    That of the account's decision function, for the seat as for any other member. Weights never count for longer
 *          than the seat was ahead for.
 * Source   design of the tree; EEVDF's delayed dequeue and conservation of lag, for seats; turnstiles (Solaris) for where
 *          the memory comes from: each member brings one seat, and leaves with one.
 * Limits   A domain has at most SEATS_MAX seats in a place: a member of one account more is on its own.
 */
#ifndef CORE_SEAT_H
#define CORE_SEAT_H

#include "decide/coop.h"
#include "tree.h"

#define SEATS_MAX 32

struct seat {
	struct tree_node node; /* in the account; its weight is never 0: what was counted last */
	struct domain __arena *domain; /* NULL: it is a spare one */
	struct seat __arena *next; /* of the domain's, or of the spare ones */
	struct seat __arena *spares; /* that its other members brought */
	struct fifo owing; /* members that are asleep and owe, by when they do not any more */
	u64 counted; /* weights of its members that are active or owe */
	u32 nr_members;
};

static __always_inline struct seat __arena *seat_of_node(struct tree_node __arena *n)
{
	return outer_of(n, struct seat, node);
}

static __always_inline struct member __arena *member_of_owing(struct heap_link __arena *l)
{
	return outer_of(l, struct member, owing);
}

static __always_inline void seat_sit_out(struct seat __arena *s)
{
	if (s->node.ready.queued)
		tree_dequeue(&s->node);
	tree_deactivate(&s->node);
}

/* The weights that count have changed; where none does, the seat keeps its last one, and takes no part. */
static __always_inline void seat_count(struct seat __arena *s, u64 weight)
{
	s->counted += weight;
	if (s->counted)
		tree_reweigh(&s->node, s->counted);
	else if (s->node.active)
		seat_sit_out(s);
}

/* Those that have repaid what they owed do not count any more. Always inline: Linux 6.18 lets functions call eight deep. */
static __always_inline void seat_settle_here(struct seat __arena *s)
{
	while (can_loop) {
		struct heap_link __arena *first = s->owing.first;

		if (!first || vtime_before(s->node.parent->vmin, first->major))
			break;
		fifo_remove(&s->owing, first);
		seat_count(s, -member_of_owing(first)->node.weight);
	}
}

/* The same for a seat that has just paid. */
core_fn seat_settle(struct seat __arena *s in_arena)
{
	seat_settle_here(s);
	return 0;
}

/* The domain's seat in an account; NULL if it has none. */
static __always_inline struct seat __arena *domain_seat_in(const struct domain __arena *d,
							   const struct group __arena *account)
{
	struct seat __arena *s = d->seats;

	while (can_loop) {
		if (!s || s->node.parent == account)
			break;
		s = s->next;
	}
	return s;
}

/* Whether there is room for a member of the account. */
static __always_inline int domain_has_room(const struct domain __arena *d,
					   const struct group __arena *account)
{
	return d->nr_seats < SEATS_MAX || domain_seat_in(d, account);
}

static __always_inline void seat_begin(struct seat __arena *s, struct domain __arena *d,
				       struct group __arena *account, u64 weight)
{
	s->node.parent = account;
	s->node.vtime = account->vmin;
	s->node.weight = weight;
	s->node.kind = NODE_SEAT;
	s->node.active = 0;
	s->node.has_run = 0;
	s->domain = d;
	s->spares = NULL;
	s->counted = 0;
	s->nr_members = 0;
	s->next = d->seats;
	d->seats = s;
	d->nr_seats++;
}

static __always_inline void seat_end(struct seat __arena *s)
{
	struct domain __arena *d = s->domain;
	struct seat __arena *before = d->seats;

	s->domain = NULL;
	d->nr_seats--;
	if (before == s) {
		d->seats = s->next;
		return;
	}
	while (can_loop) {
		if (!before || before->next == s)
			break;
		before = before->next;
	}
	if (before)
		before->next = s->next;
}

/* An inactive task becomes a member, and brings a lead along. There is room for it. */
core_fn seat_join(struct domain __arena *d in_arena, struct member __arena *m in_arena,
		  struct group __arena *account in_arena, u64 lead_ns)
{
	struct seat __arena *s = domain_seat_in(d, account);

	if (!s) {
		s = m->spare;
		seat_begin(s, d, account, m->node.weight);
	} else {
		m->spare->next = s->spares;
		s->spares = m->spare;
	}
	m->spare = NULL;
	s->nr_members++;
	m->seat = s;
	m->lead_ns = lead_ns;
	m->node.parent = &d->group;
	m->node.vtime = d->group.vmin + m->service_lead;
	return 0;
}

/* The lead that a member would take along now, as CPU time. */
static __always_inline u64 seat_lead_ns(const struct member __arena *m)
{
	const struct seat __arena *s = m->seat;
	u64 vtime = s->node.vtime;

	if (!m->node.active && !m->owing.queued)
		return m->lead_ns;
	if (m->owing.queued && vtime_before(m->owing.major, vtime))
		vtime = m->owing.major;
	return vtime_to_ns(vtime - s->node.parent->vmin, m->node.weight);
}

/* An inactive member leaves, and takes its part of the lead along, which is returned by `seat_lead_ns` before that. */
core_fn seat_leave(struct member __arena *m in_arena)
{
	struct seat __arena *s = m->seat;
	u64 least = s->domain->group.vmin;

	m->service_lead = vtime_before(least, m->node.vtime) ? m->node.vtime - least : 0;
	if (m->owing.queued) {
		fifo_remove(&s->owing, &m->owing);
		s->counted -= m->node.weight;
		if (s->counted)
			tree_set_weight(&s->node, s->counted);
		else if (s->node.active)
			seat_sit_out(s);
		/* Nobody is left to pay for what it took along. */
		if (!s->counted)
			s->node.vtime = s->node.parent->vmin;
	}
	m->seat = NULL;
	m->lead_ns = 0;
	if (--s->nr_members) {
		m->spare = s->spares;
		s->spares = m->spare->next;
		return 0;
	}
	if (s->node.active)
		seat_sit_out(s);
	seat_end(s);
	m->spare = s;
	return 0;
}

/* What a member brings along is the seat's from now on. */
static __always_inline void seat_bring_lead(struct seat __arena *s, struct member __arena *m)
{
	if (!m->lead_ns)
		return;
	s->node.vtime = vtime_max(s->node.vtime, s->node.parent->vmin) +
			vtime_of_ns(m->lead_ns, s->node.weight);
	m->lead_ns = 0;
	if (s->node.ready.queued)
		fair_follow(s->node.parent, &s->node);
}

/* The domain has a waiting member: its seats wait, that have one. */
core_fn domain_wait(struct domain __arena *d in_arena)
{
	struct seat __arena *s = d->seats;

	while (can_loop) {
		if (!s)
			break;
		if (s->node.active)
			tree_enqueue(&s->node);
		s = s->next;
	}
	return 0;
}

/* The domain has none any more. */
core_fn domain_wait_no_more(struct domain __arena *d in_arena)
{
	struct seat __arena *s = d->seats;

	while (can_loop) {
		if (!s)
			break;
		if (s->node.ready.queued)
			tree_dequeue(&s->node);
		s = s->next;
	}
	return 0;
}

/* The domain has its first active member, or has none any more: any member can fill any seat whose weight counts. */
core_fn domain_activate_seats(struct domain __arena *d in_arena, u64 now_ns)
{
	struct seat __arena *s = d->seats;

	while (can_loop) {
		if (!s)
			break;
		if (d->group.nr_active && s->counted)
			tree_activate(&s->node, now_ns);
		else
			tree_deactivate(&s->node);
		s = s->next;
	}
	return 0;
}

/* A member becomes active: its weight counts, and so does what it brings along. */
core_fn seat_activate(struct member __arena *m in_arena, u64 now_ns)
{
	struct seat __arena *s = m->seat;
	struct domain __arena *d = s->domain;

	if (m->owing.queued) {
		fifo_remove(&s->owing, &m->owing);
	} else {
		s->counted += m->node.weight;
		tree_reweigh(&s->node, s->counted);
	}
	seat_settle_here(s);
	coop_wake(d, m, now_ns);
	seat_bring_lead(s, m);
	if (d->group.nr_active == 1) {
		domain_activate_seats(d, now_ns);
	} else if (!s->node.active) {
		tree_activate(&s->node, now_ns);
		if (d->group.ready.top)
			tree_enqueue(&s->node);
	}
	return 0;
}

/* A member that does not wait ceases to be active. */
core_fn seat_deactivate(struct member __arena *m in_arena, u64 now_ns)
{
	struct seat __arena *s = m->seat;
	struct domain __arena *d = s->domain;

	coop_rest(d, m, now_ns);
	if (!d->group.nr_active)
		domain_activate_seats(d, now_ns);
	seat_settle_here(s);
	if (vtime_before(s->node.parent->vmin, s->node.vtime))
		fifo_append(&s->owing, &m->owing, s->node.vtime);
	else
		seat_count(s, -m->node.weight);
	return 0;
}

/* An active member begins to wait, or is chosen. */
static __always_inline void seat_enqueue(struct member __arena *m, u64 now_ns)
{
	struct domain __arena *d = m->seat->domain;
	int is_first = !d->group.ready.top;

	coop_enqueue(d, m, now_ns);
	if (is_first)
		domain_wait(d);
}

static __always_inline void seat_dequeue(struct member __arena *m)
{
	struct domain __arena *d = m->seat->domain;

	coop_dequeue(d, m);
	if (!d->group.ready.top)
		domain_wait_no_more(d);
}

#endif
