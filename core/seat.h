/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Seats: how a domain takes part in the accounts of its members.
 *
 * Problem  Joining a domain must neither gain nor cost CPU time, for members of whatever accounts, and for the plain tasks
 *          beside them. Weights of sleepers must not work for those that are awake.
 * Rule     A domain has one seat in each account in which it has members: a member of that account's group, which is the sum
 *          of its own active members there, in weight and in lag, and takes part while it has one. A choice that comes to a
 *          seat is filled with whichever member of the domain its decision function names; the seat that was picked pays. It
 *          waits while one of its own members does: none of them has its turn twice, by running and by a friend on another CPU.
 *          Each member has a virtual time of its own in its account, the one that it would have in no domain: its runs in its
 *          own seat add to it, it sleeps and wakes with it as plain tasks do (decide/fair.h), and joins and leaves with it.
 *          A member that goes to sleep takes its lag out of the seat, and brings it back when it wakes; so members that take
 *          turns have the share of all of them, and one that sleeps most of the time adds what it had itself, not its weight.
 *          A seat that has paid for members of other accounts SEAT_GIVES_NS more than other seats have for its own gives no
 *          more: a choice that comes to it is filled with its own member that waits longest, whomever the domain names, and
 *          it pays for nobody else's due event (borrow.h).
 *          What friends gave each other is no affair of the account's: a member takes no more of a lead along than its seat
 *          has, and is owed no more than its seat is.
 * Bound    That of the account's decision function, for the seat as for any other member. Members and their seat together
 *          are ahead by what the domain has had in the account, less what they were entitled to while awake or ahead. Members
 *          of one account have what their seat has had, but for SEAT_GIVES_NS and an event: by whatever order their domain
 *          chooses, and whatever its other members claim, all of them together have no less than in no domain.
 * Source   design of the tree; conservation of lag is EEVDF's; turnstiles (Solaris) for where the memory comes from: each
 *          member brings one seat, and leaves with one.
 * Limits   A domain has at most SEATS_MAX seats in a place: a member of one account more is on its own.
 *          What a seat has given goes with its last member, to wherever that joins next; another one leaves it behind.
 *          A seat whose members sleep cannot repay what members of other accounts had in it; it does when one wakes.
 */
#ifndef CORE_SEAT_H
#define CORE_SEAT_H

#include "decide/coop.h"
#include "tree.h"

#define SEATS_MAX 32

/* So much CPU time a seat gives to members of other accounts before it serves its own members first. */
#define SEAT_GIVES_NS 5000000

/* By how much CPU time of its own somebody of `weight` is ahead of a fair group's minimum; negative: behind. */
static __always_inline s64 lead_at_ns(const struct group __arena *g, u64 vtime, u64 weight)
{
	if (vtime_before(vtime, g->vmin))
		return -(s64)vtime_to_ns(g->vmin - vtime, weight);
	return vtime_to_ns(vtime - g->vmin, weight);
}

/* The virtual time of somebody of `weight` with such a lead. */
static __always_inline u64 vtime_of_lead(const struct group __arena *g, s64 lead_ns, u64 weight)
{
	if (lead_ns < 0)
		return g->vmin - vtime_of_ns(-lead_ns, weight);
	return g->vmin + vtime_of_ns(lead_ns, weight);
}

/* The seat's lead: that of its active members, and what it has besides. */
static __always_inline s64 seat_lead_ns(const struct seat __arena *s)
{
	return s->counted ? lead_at_ns(s->node.parent, s->node.vtime, s->counted) : (s64)s->left_ns;
}

/* The weights that count have become others, none of them 0, and the seat's lead with them. */
static __always_inline void seat_become(struct seat __arena *s, u64 counted, s64 lead_ns)
{
	struct group __arena *g = s->node.parent;

	s->node.vtime = vtime_of_lead(g, lead_ns, counted);
	s->counted = counted;
	tree_set_weight(&s->node, counted);
	if (s->node.ready.queued)
		fair_follow(g, &s->node);
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
	s->node.vtime = fair_sleepers_vmin(account);
	s->node.weight = weight;
	s->node.kind = NODE_SEAT;
	s->node.active = 0;
	s->node.has_run = 0;
	s->node.nr_seated = 0;
	s->flight = 0;
	s->domain = d;
	s->spares = NULL;
	owing_begin(&s->owing);
	s->counted = 0;
	s->left_ns = 0;
	s->first = NULL;
	s->last = NULL;
	s->nr_members = 0;
	s->next = d->seats;
	d->seats = s;
	d->nr_seats++;
	tree_seat(account, 1);
}

static __always_inline void seat_end(struct seat __arena *s)
{
	struct domain __arena *d = s->domain;
	struct seat __arena *before = d->seats;

	/* Another domain's seat in the account says it again when it is next looked at. */
	s->node.parent->seats_ahead_ns = 0;
	tree_seat(s->node.parent, -1);
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
		s->given_ns = m->given_ns;
	} else {
		m->spare->next = s->spares;
		s->spares = m->spare;
	}
	m->spare = NULL;
	m->given_ns = 0;
	s->nr_members++;
	m->seat = s;
	m->lead_ns = lead_ns;
	m->own_vtime = fair_sleepers_vmin(account);
	m->own_rest_vtime = m->own_vtime;
	m->node.parent = &d->group;
	m->node.vtime = d->group.vmin + m->service_lead;
	m->turn_vtime = m->node.vtime;
	m->turn_from = d->turn_least;
	member_repays(d, m);
	return 0;
}

/* The lead that a member would take along now, as CPU time. The last one takes what its seat has besides. */
static __always_inline u64 member_lead_ns(const struct member __arena *m)
{
	const struct seat __arena *s = m->seat;
	u64 left_ns = s->nr_members == 1 ? s->left_ns : 0;

	return m->lead_ns + left_ns +
	       vtime_to_ns(m->own_vtime - fair_sleepers_vmin(s->node.parent), m->node.weight);
}

static __always_inline void member_owes_no_more(struct member __arena *m)
{
	if (m->owing.queued)
		owing_remove(&m->seat->owing, &m->owing);
}

/* An inactive member leaves, and takes its lead along, which is returned by `member_lead_ns` before that. */
core_fn seat_leave(struct member __arena *m in_arena)
{
	struct seat __arena *s = m->seat;
	u64 least = s->domain->group.vmin, owed = m->own_rest_vtime - m->own_vtime;

	m->service_lead = vtime_before(least, m->node.vtime) ? m->node.vtime - least : 0;
	member_owes_no_more(m);
	member_repays_no_more(s->domain, m);
	/* What it was owed stays with those that it leaves. */
	if (s->counted && (s64)owed > 0)
		seat_become(s, s->counted, seat_lead_ns(s) - (s64)vtime_to_ns(owed, m->node.weight));
	m->seat = NULL;
	m->lead_ns = 0;
	if (--s->nr_members) {
		m->spare = s->spares;
		s->spares = m->spare->next;
		return 0;
	}
	m->given_ns = s->given_ns;
	seat_end(s);
	m->spare = s;
	return 0;
}

/* Where a member wakes that may have slept, and what it brings along from elsewhere. */
static __always_inline void member_wake_at(struct member __arena *m, const struct group __arena *g)
{
	u64 weight = m->node.weight;

	m->own_vtime = fair_wake_at(g, m->own_vtime - g->spare_vtime,
				    m->own_rest_vtime - g->spare_vtime, weight);
	if (m->lead_ns)
		m->own_vtime = vtime_max(m->own_vtime, g->vmin) + vtime_of_ns(m->lead_ns, weight);
	m->lead_ns = 0;
}

/* A member becomes active: its weight and its lag count. */
core_fn seat_activate(struct member __arena *m in_arena, u64 now_ns)
{
	struct seat __arena *s = m->seat;
	struct domain __arena *d = s->domain;
	struct group __arena *g = s->node.parent;
	u64 weight = m->node.weight;

	member_owes_no_more(m);
	member_wake_at(m, g);
	coop_wake(d, m, now_ns);
	s->node.nr_seated++;
	seat_become(s, s->counted + weight, seat_lead_ns(s) + lead_at_ns(g, m->own_vtime, weight));
	if (s->node.active)
		return 0;
	/* What it is owed it brings. */
	s->node.vtime += g->spare_vtime;
	s->node.rest_vtime = fair_sleepers_vmin(g);
	tree_activate(&s->node, now_ns);
	return 0;
}

/* It goes to sleep where it is in its account, but for what it gave to others of its domain, or they to it. */
static __always_inline void member_rest_at(struct member __arena *m, const struct group __arena *g,
					   s64 lead_ns)
{
	m->own_vtime = vtime_of_lead(g, lead_ns, m->node.weight) + g->spare_vtime;
	m->own_rest_vtime = fair_sleepers_vmin(g);
	if (lead_ns > 0)
		owing_add(&m->seat->owing, &m->owing, m->node.weight, m->own_vtime);
}

/* A lag, but no more of it than another one has, on the same side. */
static __always_inline s64 lag_within(s64 lag_ns, s64 most_ns)
{
	if (lag_ns < 0)
		return most_ns > 0 ? 0 : lag_ns < most_ns ? most_ns : lag_ns;
	return most_ns < 0 ? 0 : lag_ns > most_ns ? most_ns : lag_ns;
}

/* A member that does not wait ceases to be active: its weight and its lag do not count any more. */
core_fn seat_deactivate(struct member __arena *m in_arena, u64 now_ns)
{
	struct seat __arena *s = m->seat;
	struct group __arena *g = s->node.parent;
	u64 weight = m->node.weight;
	s64 all_ns = seat_lead_ns(s), lead_ns = lead_at_ns(g, m->own_vtime, weight);

	if ((s64)s->left_ns > all_ns)
		s->left_ns = all_ns > 0 ? all_ns : 0;
	/* The last one takes all that was not for members of other accounts. */
	lead_ns = s->counted > weight ? lag_within(lead_ns, all_ns) : all_ns - (s64)s->left_ns;
	coop_rest(s->domain, m, now_ns);
	s->node.nr_seated--;
	if (s->counted > weight) {
		seat_become(s, s->counted - weight, all_ns - lead_ns);
	} else {
		tree_deactivate(&s->node);
		s->counted = 0;
		s->node.vtime = vtime_of_lead(g, lead_ns, weight) + g->spare_vtime;
	}
	member_rest_at(m, g, lead_ns);
	return 0;
}

/*
 * A member has had `ns` in its own seat, and may have gone to sleep since. It is behind by no more than its seat is: what it
 * gave to others of its domain it does not get from others of its account.
 */
core_fn member_follow(struct member __arena *m in_arena, u64 ns)
{
	const struct seat __arena *s = m->seat;
	const struct group __arena *g = s->node.parent;
	u64 by_clock = m->node.active ? 0 : g->spare_vtime, vmin = g->vmin + by_clock;
	int is_owed = s->counted && vtime_before(s->node.vtime, g->vmin);

	member_owes_no_more(m);
	m->own_vtime = vtime_max(m->own_vtime, is_owed ? s->node.vtime + by_clock : vmin) +
		       vtime_of_ns(ns, m->node.weight);
	if (!m->node.active && vtime_before(vmin, m->own_vtime))
		owing_add(&m->seat->owing, &m->owing, m->node.weight, m->own_vtime);
	return 0;
}

/* A seat has paid for a member of another account; negative: another one for a member of its own. */
static __always_inline void seat_gives(struct seat __arena *s, s64 ns)
{
	s->given_ns += ns;
	if (s->given_ns > SEAT_GIVES_NS)
		s->given_ns = SEAT_GIVES_NS;
	else if (s->given_ns < -SEAT_GIVES_NS)
		s->given_ns = -SEAT_GIVES_NS;
}

/* Whether a seat that has given enough serves its own members first. */
static __always_inline int seat_keeps(const struct seat __arena *s)
{
	return s->given_ns >= SEAT_GIVES_NS;
}

/*
 * A member's run is paid by a seat of its domain, `pays`, and every account above. Where the member has gone to sleep since
 * it has taken along what its own seat would pay; one without active members pays as that member would. Always inline: Linux
 * 6.18 lets functions call eight deep.
 */
static __always_inline void seat_charge(struct member __arena *m, struct tree_node __arena *pays,
					u64 ns)
{
	struct seat __arena *s = seat_of_node(pays);
	int is_own = s == m->seat, is_asleep = !m->node.active;

	if (is_own) {
		member_follow(m, ns);
	} else {
		s->left_ns += ns;
		seat_gives(s, ns);
		seat_gives(m->seat, -(s64)ns);
	}
	/* What is charged to no leaf is to its account. */
	if (s->counted ? is_own && is_asleep : !is_own) {
		pays->parent->ran_ns += ns;
		pays = &pays->parent->node;
	}
	tree_charge(pays, ns);
}

/* A seat waits while one of its own members does: while all of those run, friends of other accounts have theirs. */
static __always_inline void seat_wait(struct member __arena *m)
{
	struct seat __arena *s = m->seat;

	m->next_own = NULL;
	m->before_own = s->last;
	if (s->last)
		s->last->next_own = m;
	else
		s->first = m;
	s->last = m;
	if (s->first == m)
		tree_enqueue(&s->node);
}

static __always_inline void seat_wait_no_more(struct member __arena *m)
{
	struct seat __arena *s = m->seat;
	struct member __arena *next = m->next_own, *before = m->before_own;

	if (before)
		before->next_own = next;
	else
		s->first = next;
	if (next)
		next->before_own = before;
	else
		s->last = before;
	if (!s->first)
		tree_dequeue(&s->node);
}

/* An active member begins to wait. */
static __always_inline void seat_enqueue(struct member __arena *m, u64 now_ns)
{
	coop_enqueue(m->seat->domain, m, now_ns);
	seat_wait(m);
}

/* A waiting member is taken. */
static __always_inline void seat_dequeue(struct member __arena *m)
{
	coop_dequeue(m->seat->domain, m);
	seat_wait_no_more(m);
}

/* `in` begins to wait, and `out` is taken, which is of the same domain. */
static __always_inline void seat_exchange(struct member __arena *out, struct member __arena *in,
					  u64 now_ns)
{
	coop_exchange(in->seat->domain, out, in, now_ns);
	seat_wait(in);
	seat_wait_no_more(out);
}

#endif
