/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A place: one run queue, that of a set of CPUs, and the choice of who runs there next.
 *
 * Problem  Domains must run at their due times, within the shares that virtual time gives to everybody.
 * Rule     Of the domains that may borrow (borrow.h), the one whose waiting member's due event expired first runs that
 *          member. Else the accounts decide at each level of the tree, down to a task or to a seat, which its domain's
 *          decision function fills; but a domain of one that is due within its grace lets an outsider go first. A task runs
 *          until its slice ends or the next due time of a domain that may then run; one of a domain that borrows, until
 *          its due event is done. A task that has waited for too long runs before all (live.h).
 *          Of several CPUs the only one that serves an account goes on until that is a slice ahead of one that another CPU serves.
 * Bound    A seat is ahead by at most a slice + window + one event, an account above it by no more (borrow.h): its members'
 *          due events are late by the running task's event, not by a round of slices; everybody's share is exact but for the
 *          window. An outsider that was let go first is ahead by at most a slice and the domain's grace.
 * Source   000 Figures 2.13, 2.15, 2.17; the window bounds what 000 section 2.3.3 leaves open.
 * Limits   One lock a place. A place does not know of the others; the host moves tasks between them.
 */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "choice.h"

/* Where a choice begins. The level of the classes is there only while one of them is active. */
static __always_inline struct group __arena *place_head(struct place __arena *pl)
{
	return pl->root.node.parent ? pl->root.node.parent : &pl->root;
}

/* A task begins to wait, or is taken: its place's list of waiters is told. */
static __always_inline void place_wait(struct place __arena *pl, struct member __arena *m,
				       u64 now_ns)
{
	live_wait(&pl->waiters, &m->waiter, now_ns);
}

static __always_inline void place_wait_no_more(struct place __arena *pl, struct member __arena *m)
{
	live_wait_no_more(&pl->waiters, &m->waiter);
}

/* The one after the first of those that wait in a fair group; NULL if there is none. */
static __always_inline struct tree_node __arena *group_second(const struct group __arena *g)
{
	struct heap_link __arena *first = g->ready.top, *left, *right;

	left = first ? first->left : NULL;
	right = first ? first->right : NULL;
	if (!left)
		return NULL;
	return node_of_ready(right && heap_before(right, left) ? right : left);
}

/* A choice has come to a seat: its domain fills it, unless it has given enough to members of other accounts. */
static __always_inline void place_fill(struct tree_node __arena *n, u64 now_ns,
				       struct choice __arena *c)
{
	struct seat __arena *s = seat_of_node(n);
	struct domain __arena *d = s->domain;
	struct tree_node __arena *running = c->running;
	struct member __arena *m, *r;

	r = running && running->parent == &d->group ? member_of(running) : NULL;
	m = coop_first(d, r, now_ns);
	if (m && m->seat != s && seat_keeps(s))
		m = s->first ? s->first : r && r->seat == s ? r : m;
	c->task = m ? &m->node : NULL;
	c->pays = n;
}

/*
 * Whether an account keeps the CPU of its running task, the only one of several CPUs that serves it, though `first` is behind it:
 * another CPU serves that one. Two accounts with a CPU each would else take both in turns, and their light tasks have the second
 * one, which a heavy task cannot use. It is ahead by a slice of the heavier of both at most.
 */
core_fn place_keeps_cpu(const struct group __arena *g in_arena,
			const struct tree_node __arena *running in_arena,
			const struct tree_node __arena *first in_arena, u64 slice_ns)
{
	u64 weight;

	if (g->node.kind != NODE_FAIR || !fair_flight_ns(first) || fair_flight_ns(running))
		return 0;
	weight = node_weight(first) > node_weight(running) ? node_weight(first) :
							     node_weight(running);
	return !vtime_before(fair_key(first) + vtime_of_ns(slice_ns, weight), running->vtime);
}

/* As the accounts decide at each level from `g` down; the running task competes at every level that it is below. */
core_fn place_descend(struct group __arena *g in_arena, u64 now_ns,
		      struct choice __arena *c in_arena)
{
	struct tree_node __arena *first, *up, *n = NULL, *running = c->running_seat;
	u8 looks = c->looks | c->defers, alone = c->is_alone, busy = c->is_busy;
	u64 least;

	c->task = NULL;
	while (can_loop) {
		first = group_next(g);
		n = first;
		/* Of a group with one active member that is the one to run, and whoever runs is below it. */
		if (running && (!first || g->nr_active > 1)) {
			up = tree_member_above(running, g);
			if (up && (!first || group_before(g, up, first, 0) ||
				   (!g->of_one_cpu && place_keeps_cpu(g, up, first, c->slice_ns))))
				n = up;
			if (n != up)
				running = NULL;
		}
		if (!n)
			break;
		/* The running one is behind, and has had all that it can use. */
		if (!c->looks && !n->ready.queued && g->node.kind == NODE_FAIR)
			fair_forget_lag(g, n);
		/*
		 * The smallest of those that wait, and the one that was may have left without being charged. But where
		 * nobody waits (the others run, on other CPUs), what it had is not owed to anybody, unless others will have it in
		 * turns. The time of an RC group is the clock's.
		 */
		least = n->vtime;
		if (first && g->node.kind == NODE_FAIR && vtime_before(first->vtime, least))
			least = first->vtime;
		if (!looks && vtime_before(g->vmin, least) && g->node.kind != NODE_RC) {
			if (first || !alone || g->node.kind != NODE_FAIR)
				choice_move_on(c, g, n, least);
			else if (!busy)
				n->vtime = g->vmin;
			else
				fair_bound_lead(g, n);
		}
		if (n->kind == NODE_SEAT) {
			place_fill(n, now_ns, c);
			break;
		}
		if (n->kind == NODE_TASK) {
			c->task = n;
			c->pays = n;
			break;
		}
		g = group_of(n);
	}
	return 0;
}

/*
 * The accounts would have a domain run now that is due in a moment: would it, its due event had to wait for the event
 * that it begins now. So an outsider goes first until then, the best of the others at the lowest level where there is one,
 * unless it is ahead by more than a slice, its own or of nice 0: it gets nothing that it would not get next. Returns whether
 * there is such a one, the choice's `task` then.
 */
core_fn place_make_room(struct place __arena *pl in_arena, struct seat __arena *s in_arena,
			u64 now_ns, struct choice __arena *c in_arena)
{
	struct tree_node __arena *n = &s->node, *running = c->running, *up, *other = NULL;
	struct domain __arena *d = s->domain;
	struct member __arena *m;
	u64 due_ns, weight;

	domain_look_soon(d, now_ns);
	m = d->next;
	due_ns = m ? m->due.major : NEVER_NS;
	if (running && running->parent == &d->group && member_of(running)->due_ns < due_ns) {
		m = member_of(running);
		due_ns = m->due_ns;
	}
	if (due_ns <= now_ns || due_ns - now_ns > d->grace_ns || !domain_may_borrow(pl, d, m))
		return 0;
	while (can_loop) {
		struct group __arena *g = n->parent;

		if (!g || g == &pl->top || g->node.kind != NODE_FAIR)
			return 0;
		up = c->running_seat ? tree_member_above(c->running_seat, g) : NULL;
		other = group_first(g);
		if (other == n)
			other = group_second(g);
		if (up && up != n && (!other || vtime_before(up->vtime, other->vtime)))
			other = up;
		if (other)
			break;
		n = &g->node;
	}
	if (!other || other->kind == NODE_SEAT)
		return 0;
	weight = node_weight(other) > WEIGHT_ONE ? node_weight(other) : WEIGHT_ONE;
	if (vtime_before(n->vtime + vtime_of_ns(pl->quantum_ns, weight), other->vtime))
		return 0;
	c->task = other;
	return 1;
}

/*
 * The account, or the task, that keeps its CPU where several CPUs choose from the place: one that is behind in its group by a
 * slice or more, though it has just run, is entitled to all that its runnable tasks can use. Were it compared at every level
 * above, it would wait for its account's next turn there while the account's others, which are ahead of it, run on other
 * CPUs. So is a reservation that is behind its class' virtual time, unless another one goes before it: else one that is ahead
 * but waits would have what the class has. By the clock (decide/rc.h) nobody gives way for being ahead. It keeps the CPU while
 * no account above it is ahead by more than LAG_MAX_NS; a reservation that is owed what it was promised does even if its class
 * is, by what others of it have had: the choice's `task`, NULL if there is none.
 */
core_fn place_look_kept(struct place __arena *pl in_arena, u64 now_ns,
			struct choice __arena *c in_arena)
{
	struct tree_node __arena *n = c->running_seat, *kept = NULL;

	while (can_loop) {
		struct group __arena *g = n->parent;
		struct tree_node __arena *first;

		if (!g || g->node.kind == NODE_RC)
			break;
		first = group_has_periods(g) ? group_next(g) : NULL;
		if (first && group_before(g, first, n, 0)) {
			kept = NULL;
		} else if (g->node.kind == NODE_PERIOD && period_is_owed(n, now_ns)) {
			kept = n;
			break;
		} else if (vtime_before(n->vtime + vtime_of_ns(pl->quantum_ns, node_weight(n)),
					g->vmin)) {
			kept = n;
			/* It has had all that it can use for as long as nobody else wanted it, and is not owed the rest. */
			if (!c->looks && !n->ready.queued && g->node.kind == NODE_FAIR)
				fair_forget_lag(g, n);
		} else if (kept && vtime_before(g->vmin + vtime_of_ns(LAG_MAX_NS, node_weight(n)),
						n->vtime)) {
			kept = NULL;
		}
		n = &g->node;
	}
	c->task = kept;
	if (kept && kept->kind >= NODE_FAIR)
		c->from = group_of(kept);
	return 0;
}

/* As the accounts decide, but that a domain which is due in a moment makes room. */
static __always_inline void place_choose_fair(struct place __arena *pl, u64 now_ns,
					      struct choice __arena *c)
{
	struct seat __arena *s;
	struct tree_node __arena *n;

	c->task = NULL;
	c->from = place_head(pl);
	if ((c->is_alone || pl->root.node.parent) && pl->nr_cpus > 1 && c->running_seat)
		place_look_kept(pl, now_ns, c);
	if (c->task && c->task->kind == NODE_TASK) {
		c->pays = c->task;
		return;
	}
	place_descend(c->from, now_ns, c);
	if (!c->task || c->pays->kind != NODE_SEAT)
		return;
	/* Where several members work, one is always due soon: the domain would make room until it has to catch up. */
	s = seat_of_node(c->pays);
	if (s->domain->group.nr_active > 1 || !place_make_room(pl, s, now_ns, c))
		return;
	n = c->task;
	c->pays = n;
	if (n->kind != NODE_TASK)
		place_descend(group_of(n), now_ns, c);
}

/* The seat in which a task runs that has not been picked through one. */
static __always_inline struct tree_node __arena *member_pays(struct member __arena *m)
{
	return m->seat ? &m->seat->node : &m->node;
}

/*
 * A task that has waited for too long is ahead by more than it can repay: what is beyond the slice that it gets now is
 * forgotten. Were all of it, other CPUs would find its account first among those that wait until that slice is charged.
 */
core_fn place_forgive(struct place __arena *pl in_arena, struct tree_node __arena *n in_arena)
{
	while (can_loop) {
		struct group __arena *g = n->parent;
		u64 most;

		if (!g)
			break;
		most = g->vmin + vtime_of_ns(pl->quantum_ns, node_weight(n));
		if (g->node.kind == NODE_FAIR && vtime_before(most, n->vtime)) {
			n->vtime = most;
			if (n->ready.queued)
				fair_follow(g, n);
		}
		n = &g->node;
	}
	return 0;
}

/* The longest waiter has waited for too long: the choice then. */
core_fn place_rescue(struct place __arena *pl in_arena, u64 now_ns,
		     struct choice __arena *c in_arena)
{
	struct member __arena *m = outer_of(pl->waiters.first, struct member, waiter);

	pl->waiters.again_at_ns = now_ns + LIVE_PART * pl->quantum_ns;
	c->waited_ns = now_ns - m->waiter.since_ns;
	c->task = &m->node;
	c->pays = member_pays(m);
	place_forgive(pl, c->pays);
	return 0;
}

/*
 * Several CPUs choose from the place: whether a due event may take one from a task that runs. That is in no queue, and so the
 * floors of its accounts may have passed it: its own virtual time says how far ahead of it the domain's seat, or an account above
 * that, is, after it has run for `ran_ns` more than it was charged.
 */
core_fn place_may_interrupt(struct place __arena *pl in_arena, struct member __arena *m in_arena,
			    struct tree_node __arena *running in_arena, u64 ran_ns)
{
	u64 allowed_ns = pl->window_ns + domain_slices_ns(pl, domain_of(m->node.parent));
	struct tree_node __arena *n = &m->seat->node, *up;

	while (can_loop) {
		struct group __arena *g = n->parent;

		if (!g)
			break;
		up = tree_member_above(running, g);
		if (up)
			return up == n || g->node.kind != NODE_FAIR ||
			       !vtime_before(up->vtime + vtime_of_ns(ran_ns, node_weight(up)) +
						     vtime_of_ns(allowed_ns, node_weight(n)),
					     n->vtime);
		n = &g->node;
	}
	return 1;
}

/* The member whose due event is served now, by borrowing; NULL: none is. */
static __always_inline struct member __arena *place_due(struct place __arena *pl,
							struct tree_node __arena *running,
							struct tree_node __arena *seat, u64 now_ns)
{
	int is_free = pl->nr_cpus > 1 && (!running || running->parent->node.kind == NODE_COOP);
	struct member __arena *m = place_expired(pl, is_free, now_ns), *r;
	struct domain __arena *d;

	if (m && running && pl->nr_cpus > 1 && running->parent != m->node.parent &&
	    !place_may_interrupt(pl, m, seat, 0))
		return NULL;
	if (!running || running->parent->node.kind != NODE_COOP)
		return m;
	r = member_of(running);
	d = domain_of(running->parent);
	if (r->due_ns <= now_ns && member_due_counts(r, d) && (!m || r->due_ns <= m->due.major) &&
	    place_may_borrow(pl, d, r))
		return r;
	return m;
}

/* With what a running task competes: a member's own seat, else what it has run in, if that counts any more. */
static __always_inline struct tree_node __arena *running_seat(struct tree_node __arena *running,
							      struct tree_node __arena *pays)
{
	struct member __arena *m = member_of(running);

	if (m->seat)
		return &m->seat->node;
	return pays->active ? pays : running;
}

/* Whether a domain is there that may be due. */
static __always_inline int place_has_domains(const struct place __arena *pl)
{
	return pl->due.top || pl->nr_blocked;
}

/*
 * Chooses who runs next. `running`, if not NULL, is an active task of this place that has just run in the seat `pays`, is
 * charged, does not wait, and may go on. Nothing is taken out of the queues, except late sleepers.
 */
core_fn place_choose(struct place __arena *pl in_arena, struct tree_node __arena *running in_arena,
		     struct tree_node __arena *pays in_arena, u64 now_ns,
		     struct choice __arena *c in_arena)
{
	struct member __arena *m;

	c->due_ns = NEVER_NS;
	c->waited_ns = 0;
	c->leaps_in = NULL;
	c->running = running;
	c->running_seat = running ? running_seat(running, pays) : NULL;
	if (pl->nr_blocked && pl->top.blocked.top)
		place_unblock_top(pl);
	if (live_overdue(&pl->waiters, now_ns) && !c->looks) {
		place_rescue(pl, now_ns, c);
		return 0;
	}
	if (pl->due.top && pl->due.top->major <= now_ns) {
		while (can_loop) {
			if (!place_settle(pl, now_ns))
				break;
		}
	}
	m = place_due(pl, running, c->running_seat, now_ns);
	if (!m) {
		place_choose_fair(pl, now_ns, c);
		if (c->task && pl->nr_blocked)
			place_unblock(pl, c->pays);
		return 0;
	}
	c->task = &m->node;
	c->pays = &domain_seat_for(pl, domain_of(m->node.parent), m)->node;
	if (!c->looks && !c->pays->ready.queued && c->pays->parent->node.kind == NODE_FAIR)
		fair_forget_lag(c->pays->parent, c->pays);
	c->due_ns = &m->node == running ? m->due_ns : m->due.major;
	return 0;
}

/*
 * A choice by virtual time that was deferred is taken: at each level the minimum moves on to the one chosen, as far as those
 * that wait allow. Of places among which a CPU chooses, one whose task is not taken keeps its time: what is ahead there has
 * not had its turn, and what is behind has not missed it.
 */
core_fn place_accept(struct choice __arena *c in_arena)
{
	struct tree_node __arena *n = c->pays, *first;
	u64 least;

	while (can_loop) {
		struct group __arena *g = n->parent;

		if (!g || c->due_ns != NEVER_NS || c->waited_ns)
			break;
		if (!n->ready.queued && g->node.kind == NODE_FAIR)
			fair_forget_lag(g, n);
		first = group_next(g);
		least = n->vtime;
		if (first && g->node.kind == NODE_FAIR && vtime_before(first->vtime, least))
			least = first->vtime;
		if (g->node.kind != NODE_RC && vtime_before(g->vmin, least))
			choice_move_on(c, g, n, least);
		n = &g->node;
	}
	return 0;
}

/*
 * The same where nobody but the root's own tasks has a say: what most choices come to, at a fraction of the price. Returns
 * whether that is so; else nothing has changed.
 */
static __always_inline int place_choose_plain(struct place __arena *pl,
					      struct tree_node __arena *running,
					      struct tree_node __arena *pays, u64 now_ns,
					      struct choice __arena *c)
{
	struct group __arena *g = &pl->root;
	struct tree_node __arena *n = group_first(g);

	if (!n || n->kind != NODE_TASK || g->node.parent || place_has_domains(pl) || c->looks ||
	    live_overdue(&pl->waiters, now_ns))
		return 0;
	if (running) {
		if (running != pays || running->parent != g)
			return 0;
		if (vtime_before(running->vtime, n->vtime)) {
			n = running;
			fair_forget_lag(g, n);
		}
	}
	c->task = n;
	c->pays = n;
	c->due_ns = NEVER_NS;
	c->waited_ns = 0;
	c->leaps_in = NULL;
	if (vtime_before(g->vmin, n->vtime))
		choice_move_on(c, g, n, n->vtime);
	return 1;
}

#endif
