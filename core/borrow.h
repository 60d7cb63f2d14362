/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Borrowing: which domains may serve their due events now, ahead of their turn.
 *
 * Problem  A due event that waits for its domain's turn is late; one that never waits takes the CPU from everybody.
 * Rule     A domain may borrow while one of its seats is ahead of its account's floor (decide/fair.h), or of the average of
 *          those in it as far as MEAN_MAX_NS of nice 0 before that, by no more than the window and a slice for each of
 *          its active members, as CPU time of its own, together with those of its members that sleep ahead (owing.h); or while
 *          the member that is due is not ahead itself: in no domain it would be its turn, whatever others have had too early,
 *          and its own seat pays. And while every account above is ahead of its own group's floor, or average, by no more than
 *          those slices and what the seat repays within the window: its share of the CPUs for that long. An account repays for
 *          all below it, the plain tasks beside the seat too: with the whole window, a seat in a light account would be ahead
 *          at their cost for many windows.
 *          Domains that may borrow are in a queue of the place by their next due time; one that may not is in a queue of
 *          the group in which it is too far ahead, by the virtual time at which it is not any more. The member's own seat pays
 *          where that may be put ahead, for what it runs it would have paid in no domain; else the seat that is least ahead of
 *          those that have not given enough.
 * Bound    No seat and no account is ahead by more than slices of the domain's active members + window + one event because of
 *          due events, a seat by one event more of each member whose turn it was; an account, while no class is active, by no
 *          more than those slices + what its seat repays + one event; and each by MEAN_MAX_NS of nice 0 more, in virtual time.
 * Source   000 section 2.3.3 (borrowing), which has no bound; the queues are those of WF2Q+: who may run now, and who will
 *          by which virtual time.
 * Limits   While a class is active the accounts above a seat may be ahead by the whole window, as the level of the classes
 *          comes and goes: plain tasks of a light account wait longer then.
 *          Where one of several seats may borrow again earlier than the one looked at last, that is seen when the domain's
 *          members or times change next. Where a waiting task that was owed leaves its group without a run, that is seen when
 *          the group is charged or chosen from next.
 */
#ifndef CORE_BORROW_H
#define CORE_BORROW_H

#include "function.h"
#include "live.h"
#include "seat.h"
#include "slice.h"

struct place {
	struct group root; /* of everybody who has reserved nothing */
	struct group top; /* of the classes, and of the root while one of them is active: see class.h */
	struct heap due; /* domains that may borrow, by their next due time */
	struct waiters waiters; /* its waiting tasks, the one first that waits longest: see live.h */
	u64 window_ns; /* how far a domain may run ahead for due events, at its own rate */
	u64 quantum_ns; /* a slice as it is now: what running by virtual time alone may put a member ahead */
	u64 protected_ns; /* for how long a task goes on that sends messages */
	u64 members_ns; /* a domain's slice, at most, if that is more than one task's */
	u64 first_ns; /* how long the first turn of a task that has just woken is at most; 0: there is none */
	u64 first_average_ns; /* and for one with an average share */
	u32 nr_runnable; /* tasks */
	u32 nr_blocked; /* domains that have borrowed enough */
	u32 nr_cpus; /* that choose from it; kept by the host */
	u64 sides_weight; /* of its CPUs: what the places beside it have of them beside classes, see division.h, */
	u64 sides_promised; /* and what is promised there; both kept by the host */
	struct group __arena *classes; /* all that there are, see class.h; NULL: none; kept by the host */
	u64 classes_want; /* what those in which anybody is runnable would weigh if they left room for the root and each other */
	u64 classes_promised; /* and what is promised to them here */
	u64 classes_left; /* what all of them may weigh beyond that */
	u64 more_weight; /* of what they want, what they have beyond their promises, and */
	u64 root_weight; /* what the root weighs beside them; 0: what is left says both; kept by the host */
	u64 offset; /* what its virtual time is behind that of the place beside which CPUs choose from it; kept by the host */
	u64 changes; /* of what its slice and window follow: how many of them are in these */
	u64 unblocks_at_ns; /* of the last look: see place.h */
};

static __always_inline struct domain __arena *domain_of_upcoming(struct heap_link __arena *l)
{
	return outer_of(l, struct domain, upcoming);
}

/* The floor to which its group must have come before a node may be put further ahead, by `allowed_ns` at most. */
static __always_inline u64 node_may_borrow_at(const struct tree_node __arena *n, u64 allowed_ns)
{
	return node_vtime(n) - vtime_of_ns(allowed_ns, node_weight(n));
}

/* What running by virtual time alone may put a domain ahead. */
static __always_inline u64 domain_slices_ns(const struct place __arena *pl,
					    const struct domain __arena *d)
{
	u32 nr_active = d->group.nr_active;

	return members_slice_ns(pl->quantum_ns, nr_active, pl->members_ns);
}

/* A node's part of what its group has, of `ns`. */
static __always_inline u64 node_part_ns(const struct tree_node __arena *n, u64 ns)
{
	const struct group __arena *g = n->parent;
	u64 weight = node_weight(n), all = g->weight_active + (n->active ? 0 : weight);

	if (weight >= all)
		return ns;
	return ((ns >> VTIME_SHIFT) * (weight >> 4) / (all >> 4)) << VTIME_SHIFT;
}

/* How far the accounts above a seat may be ahead for it, besides slices: what the seat is entitled to within the window. */
static __always_inline u64 seat_repays_ns(const struct place __arena *pl,
					  const struct seat __arena *s)
{
	const struct tree_node __arena *n = &s->node;
	u64 ns = pl->window_ns;

	if (pl->root.node.parent || n->parent == &pl->root)
		return ns;
	while (can_loop) {
		if (!n->parent)
			break;
		ns = node_part_ns(n, ns);
		n = &n->parent->node;
	}
	return ns * pl->nr_cpus;
}

/*
 * The lowest group in which a node, or an account above it, is too far ahead to be put further ahead: itself by more than
 * `allowed_ns`, an account by more than `above_ns`. NULL: none is. `at`: that group's floor from which on it is not any more.
 */
static __always_inline struct group __arena *node_blocked_in(const struct tree_node __arena *n,
							     u64 allowed_ns, u64 above_ns, u64 *at)
{
	while (can_loop) {
		struct group __arena *g = n->parent;

		if (!g)
			break;
		if (g->node.kind != NODE_RC) {
			*at = node_may_borrow_at(n, allowed_ns);
			if (vtime_before(fair_mean(g), *at))
				return g;
		}
		allowed_ns = above_ns;
		n = &g->node;
	}
	return NULL;
}

/* Whether a task whose account has the CPU may take over from the one that runs, though others are before that account. */
core_fn node_may_take_over(struct place __arena *pl in_arena, struct tree_node __arena *n in_arena)
{
	u64 allowed_ns = pl->window_ns + pl->quantum_ns, at;

	return !node_blocked_in(n, allowed_ns, allowed_ns, &at);
}

/*
 * The floor to which a seat's account must have come before its domain may be put further ahead there, by `allowed_ns` at
 * most: what its members that sleep have had too early is repaid first.
 */
static __always_inline u64 seat_may_borrow_at(struct seat __arena *s, u64 allowed_ns)
{
	const struct group __arena *g = s->node.parent;
	s64 ahead_ns = seat_lead_ns(s) - (s64)allowed_ns;
	u64 weight = s->node.weight;

	if (s->owing.weight) {
		ahead_ns += owing_ns(&s->owing, fair_sleepers_vmin(g));
		weight = s->counted + owing_weight(&s->owing);
	}
	return vtime_of_lead(g, ahead_ns, weight);
}

/*
 * The same for a seat that member `m` of its domain is to run in, and the accounts above it: the lowest group in which one is
 * too far ahead, and `at` which floor of that it is not any more. A member that is not ahead itself, in its own seat, is
 * entitled to run next, whatever the others have had too early.
 */
static __always_inline struct group __arena *seat_blocked_in(const struct place __arena *pl,
							     struct seat __arena *s,
							     const struct member __arena *m,
							     u64 slices_ns, u64 *at)
{
	struct group __arena *g = s->node.parent;

	g->seats_ahead_ns = pl->window_ns;
	*at = seat_may_borrow_at(s, pl->window_ns + slices_ns);
	if (m && m->seat == s && vtime_before(m->own_vtime, *at))
		*at = m->own_vtime;
	if (vtime_before(fair_mean(g), *at))
		return g;
	slices_ns += seat_repays_ns(pl, s);
	return node_blocked_in(&g->node, slices_ns, slices_ns, at);
}

/*
 * Whether a seat may pay for a member: its own, else one that can be picked and has not given enough. While nobody of the domain
 * is active, any will be one that has members.
 */
static __always_inline int seat_may_pay(const struct seat __arena *s, const struct member __arena *m)
{
	if (m && m->seat == s)
		return 1;
	return (s->counted || !s->domain->group.nr_active) && !seat_keeps(s);
}

/* The same for the domain: if none of its seats may borrow, where one does not, and from which virtual time on it may. */
core_fn domain_look_blocked(struct place __arena *pl in_arena, struct domain __arena *d in_arena,
			    struct member __arena *m in_arena)
{
	u64 slices_ns = domain_slices_ns(pl, d), at = 0;
	struct seat __arena *s = d->seats;

	d->blocks = NULL;
	while (can_loop) {
		struct group __arena *g;

		if (!s)
			break;
		if (seat_may_pay(s, m)) {
			g = seat_blocked_in(pl, s, m, slices_ns, &at);
			d->blocks = g;
			d->may_borrow_at = at;
			if (!g)
				break;
		}
		s = s->next;
	}
	return 0;
}

/* Sleepers that have repaid owe no more. Always inline: Linux 6.18 lets functions call eight deep. */
static __always_inline void domain_settle_owing(struct domain __arena *d)
{
	struct seat __arena *s = d->seats;

	while (can_loop) {
		if (!s)
			break;
		owing_settle(&s->owing, fair_sleepers_vmin(s->node.parent));
		s = s->next;
	}
}

core_fn domain_settle(struct domain __arena *d in_arena)
{
	domain_settle_owing(d);
	return 0;
}

/* Whether the domain may borrow for a member of it. */
static __always_inline int domain_may_borrow(struct place __arena *pl, struct domain __arena *d,
					     struct member __arena *m)
{
	domain_settle(d);
	domain_look_blocked(pl, d, m);
	return !d->blocks;
}

/* The same as a function: a choice with all of it would be too much for Linux 6.18. */
core_fn place_may_borrow(struct place __arena *pl in_arena, struct domain __arena *d in_arena,
			 struct member __arena *m in_arena)
{
	return domain_may_borrow(pl, d, m);
}

/* How far a seat that counts is ahead, or an account above it, at the level at which that is most, as CPU time. */
static __always_inline u64 seat_ahead_ns(const struct seat __arena *s)
{
	const struct tree_node __arena *n = &s->node;
	s64 seat_ns = seat_lead_ns(s) + (s64)owing_ns(&s->owing, fair_sleepers_vmin(n->parent));
	u64 most_ns = seat_ns > 0 ? seat_ns : 0, ns;

	while (can_loop) {
		const struct group __arena *g;

		n = &n->parent->node;
		g = n->parent;
		if (!g)
			break;
		ns = fair_lead_ns(g, n);
		if (ns > most_ns)
			most_ns = ns;
	}
	return most_ns;
}

/* Of the seats that count and may pay for an active member, the one that is least ahead: the domain's `best`. */
core_fn domain_look_best(struct domain __arena *d in_arena, struct member __arena *m in_arena)
{
	struct seat __arena *s = d->seats, *best = m->seat;
	u64 least_ns = NEVER_NS, ns;

	while (can_loop) {
		if (!s)
			break;
		ns = s->counted && seat_may_pay(s, m) ? seat_ahead_ns(s) : NEVER_NS;
		if (ns < least_ns) {
			least_ns = ns;
			best = s;
		}
		s = s->next;
	}
	d->best = best;
	return 0;
}

/* The seat in which a member runs whose due event is served, the domain's `best`: its own where that may be put ahead. */
core_fn domain_look_seat(struct place __arena *pl in_arena, struct domain __arena *d in_arena,
			 struct member __arena *m in_arena)
{
	u64 at;

	domain_settle(d);
	if (seat_blocked_in(pl, m->seat, m, domain_slices_ns(pl, d), &at))
		domain_look_best(d, m);
	else
		d->best = m->seat;
	return 0;
}

static __always_inline struct seat __arena *
domain_seat_for(struct place __arena *pl, struct domain __arena *d, struct member __arena *m)
{
	if (d->nr_seats == 1)
		return d->seats;
	domain_look_seat(pl, d, m);
	return d->best;
}

static __always_inline void place_forget(struct place __arena *pl, struct domain __arena *d)
{
	if (!d->upcoming.queued)
		return;
	if (d->blocked_in) {
		heap_remove(&d->blocked_in->blocked, &d->upcoming);
		pl->nr_blocked--;
	} else {
		heap_remove(&pl->due, &d->upcoming);
	}
	d->blocked_in = NULL;
}

static __always_inline void place_expect(struct place __arena *pl, struct domain __arena *d,
					 u64 due_ns)
{
	d->blocked_in = d->blocks;
	if (d->blocked_in) {
		heap_push(&d->blocked_in->blocked, &d->upcoming, d->may_borrow_at, 0);
		pl->nr_blocked++;
		d->nr_blocked++;
	} else {
		heap_push(&pl->due, &d->upcoming, due_ns, 0);
	}
}

/* To be called whenever a domain's due times, virtual times or weights have changed. */
core_fn place_refresh(struct place __arena *pl in_arena, struct domain __arena *d in_arena)
{
	u64 due_ns, key;

	domain_promote(d);
	due_ns = domain_next_due_ns(d);
	if (due_ns == NEVER_NS || !d->seats) {
		place_forget(pl, d);
		return 0;
	}
	domain_settle_owing(d);
	domain_look_next(d);
	domain_look_blocked(pl, d, d->next);
	if (d->upcoming.queued && d->blocked_in == d->blocks) {
		key = d->blocks ? d->may_borrow_at : due_ns;
		if (d->upcoming.major != key)
			heap_move(d->blocks ? &d->blocks->blocked : &pl->due, &d->upcoming, key, 0);
		return 0;
	}
	place_forget(pl, d);
	place_expect(pl, d, due_ns);
	return 0;
}

/* The floors of the groups above `n` may have moved on: domains that have been caught up with may borrow again. */
core_fn place_unblock(struct place __arena *pl in_arena, struct tree_node __arena *n in_arena)
{
	while (can_loop) {
		struct group __arena *g = n->parent;
		struct heap_link __arena *top;

		if (!g)
			break;
		while (can_loop) {
			top = g->blocked.top;
			if (!top || vtime_before(fair_mean(g), top->major))
				break;
			place_refresh(pl, domain_of_upcoming(top));
		}
		n = &g->node;
	}
	return 0;
}

/*
 * The level of the classes has come or gone: not everybody is too far ahead at it who was. A domain that sleeps may stay so
 * while the level is gone: its class is ahead of the root, which catches up when it comes back.
 */
core_fn place_unblock_top(struct place __arena *pl in_arena)
{
	while (can_loop) {
		struct heap_link __arena *top = pl->top.blocked.top;

		if (!top || (pl->root.node.parent && vtime_before(fair_mean(&pl->top), top->major)))
			break;
		place_refresh(pl, domain_of_upcoming(top));
		if (pl->top.blocked.top == top)
			break;
	}
	return 0;
}

/*
 * One step towards a queue that says who is due: a sleeper whose own timer is a little late counts again once it wakes; a
 * domain whose account others have put ahead meanwhile waits among those that have borrowed enough. Returns 0 when there
 * is nothing to do.
 */
core_fn place_settle(struct place __arena *pl in_arena, u64 now_ns)
{
	struct heap_link __arena *top = pl->due.top;
	struct domain __arena *d;

	if (!top || top->major > now_ns)
		return 0;
	d = domain_of_upcoming(top);
	if (d->asleep.top && d->asleep.top->major <= now_ns) {
		heap_remove(&d->asleep, d->asleep.top);
	} else {
		domain_look_next(d);
		/* Its interval may be over. */
		if (!(d->function && function_renew(d, d->next, now_ns)) &&
		    domain_may_borrow(pl, d, d->next))
			return 0;
	}
	place_refresh(pl, d);
	return 1;
}

/* As domain_expired(), of the first of the domains that may borrow. */
static __always_inline struct member __arena *place_expired(struct place __arena *pl, int is_free,
							    u64 now_ns)
{
	struct heap_link __arena *top = pl->due.top;

	return top && (is_free || top->major <= now_ns) ?
		       domain_expired(domain_of_upcoming(top), is_free, now_ns) :
		       NULL;
}

/* Times that are computed from virtual times are a little early: never find the domain still ahead. */
#define AHEAD_MARGIN_NS 1000

/*
 * For how long the seat `n` must have the CPU until a domain may borrow again that has borrowed enough in a group above it, or
 * in its own; NEVER_NS if that takes others, too. While more than one member is to catch up, all of them do, on average: if
 * each did so for itself, they would be compared at fractions of a slice.
 */
static __always_inline u64 unblocks_after_ns(const struct tree_node __arena *n, u64 may_borrow_at)
{
	struct group __arena *g = n->parent;
	struct tree_node __arena *first = group_first(g);
	u64 mean = vtime_max(g->mean, g->vmin);

	if (!first || !vtime_before(first->vtime, may_borrow_at))
		return vtime_before(n->vtime, may_borrow_at) ?
			       vtime_to_ns(may_borrow_at - n->vtime, node_weight(n)) :
			       NEVER_NS;
	return vtime_before(mean, may_borrow_at) ?
		       vtime_to_ns(may_borrow_at - mean, g->weight_active) :
		       NEVER_NS;
}

/*
 * When the first of the domains is due and may borrow again that have borrowed enough, if the seat `n` has the CPU till
 * then: the place's `unblocks_at_ns`.
 */
core_fn place_look_unblocks(struct place __arena *pl in_arena, struct tree_node __arena *n in_arena,
			    u64 now_ns)
{
	u64 first_ns = NEVER_NS, after_ns, at_ns, due_ns;

	while (can_loop) {
		struct group __arena *g = n->parent;
		struct heap_link __arena *blocked = g ? g->blocked.top : NULL;

		if (!g)
			break;
		after_ns = blocked ? unblocks_after_ns(n, blocked->major) : NEVER_NS;
		if (after_ns != NEVER_NS) {
			at_ns = now_ns + AHEAD_MARGIN_NS + after_ns;
			due_ns = domain_next_due_ns(domain_of_upcoming(blocked));
			if (due_ns > at_ns)
				at_ns = due_ns;
			if (at_ns < first_ns)
				first_ns = at_ns;
		}
		n = &g->node;
	}
	pl->unblocks_at_ns = first_ns;
	return 0;
}

#endif
