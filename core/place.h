/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A place: one run queue, that of a set of CPUs, and the choice of who runs there next.
 *
 * Problem  Domains must run at their due times, within the shares that virtual time gives to everybody.
 * Rule     Of the domains that are not ahead of the others by more than the window, the one whose waiting member's
 *          due event expired first runs that member (the domain borrows). Else virtual time decides at
 *          each level of the tree, and inside a domain its decision function; but a domain of one that is due
 *          within its grace lets an outsider go first. A task runs until its slice ends or the next due time of a
 *          domain that may then run; one of a domain that borrows, until its due event is done.
 * Bound    A domain is ahead by at most a slice + window + one event: its members' due events are late by the running task's
 *          event, not by a round of slices; everybody's share is exact but for the window. An outsider that was
 *          let go first is ahead by at most a slice and the domain's grace.
 * Source   000 Figures 2.13, 2.15, 2.17; the window bounds what 000 section 2.3.3 leaves open. The two queues
 *          are those of WF2Q+: who may run now, and who will by which virtual time.
 * Limits   One lock a place. A place does not know of the others; the host moves tasks between them.
 */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "coop.h"
#include "slice.h"

struct place {
	struct group root; /* of everybody who has reserved nothing */
	struct group top; /* of the classes, and of the root while one of them is active: see class.h */
	struct heap due; /* domains that may borrow, by their next due time */
	struct heap ahead; /* domains that have borrowed enough, by the virtual time at which they may again */
	u64 window_ns; /* how far a domain may run ahead for due events, at its own rate */
	u64 quantum_ns; /* a slice as it is now: what running by virtual time alone may put a domain ahead */
	u32 nr_runnable; /* tasks */
};

/* Whom a place would run. */
struct choice {
	struct tree_node __arena *task; /* NULL: nobody waits */
	u64 due_ns; /* its expired due time if that is why, else NEVER_NS */
	u8 looks; /* set by the caller: virtual times do not move on, whoever is chosen */
};

/* Where a choice begins. The level of the classes is there only while one of them is active. */
static __always_inline struct group __arena *place_head(struct place __arena *pl)
{
	return pl->root.node.parent ? pl->root.node.parent : &pl->root;
}

static __always_inline struct domain __arena *domain_of_upcoming(struct heap_link __arena *l)
{
	return outer_of(l, struct domain, upcoming);
}

/* The virtual time to which the place must have come before the domain may borrow (again). */
static __always_inline u64 domain_may_borrow_at(const struct place __arena *pl,
						const struct domain __arena *d)
{
	return d->group.node.vtime - vtime_of_ns(pl->window_ns, d->group.node.weight) -
	       vtime_of_ns(pl->quantum_ns, WEIGHT_ONE);
}

/* The virtual time to which the classes must have come before the root's domains may borrow. */
static __always_inline u64 root_may_borrow_at(const struct place __arena *pl)
{
	return pl->root.node.vtime -
	       vtime_of_ns(pl->window_ns + pl->quantum_ns, pl->root.node.weight);
}

/* A domain that is alone in the root is never ahead there: it is the classes that it must not overtake. */
static __always_inline int place_root_may_borrow(const struct place __arena *pl)
{
	return !pl->root.node.parent || !vtime_before(pl->top.vmin, root_may_borrow_at(pl));
}

static __always_inline void place_forget(struct place __arena *pl, struct domain __arena *d)
{
	if (d->upcoming.queued)
		heap_remove(d->is_ahead ? &pl->ahead : &pl->due, &d->upcoming);
}

/* To be called whenever a domain's due times, virtual time or weight have changed. */
core_fn place_refresh(struct place __arena *pl in_arena, struct domain __arena *d in_arena)
{
	u64 due_ns, at;
	u8 is_ahead;

	domain_promote(d);
	due_ns = domain_next_due_ns(d);
	if (due_ns == NEVER_NS) {
		place_forget(pl, d);
		return 0;
	}
	at = domain_may_borrow_at(pl, d);
	is_ahead = vtime_before(pl->root.vmin, at);
	if (d->upcoming.queued && d->is_ahead == is_ahead) {
		u64 key = is_ahead ? at : due_ns;

		if (d->upcoming.major != key)
			heap_move(is_ahead ? &pl->ahead : &pl->due, &d->upcoming, key, 0);
		return 0;
	}
	place_forget(pl, d);
	d->is_ahead = is_ahead;
	heap_push(is_ahead ? &pl->ahead : &pl->due, &d->upcoming, is_ahead ? at : due_ns, 0);
	return 0;
}

/* The same where nothing but the domain's virtual time has. */
static __always_inline void place_refresh_charged(struct place __arena *pl, struct domain __arena *d)
{
	if (d->upcoming.queued && !d->is_ahead && !d->indebted.top &&
	    !vtime_before(pl->root.vmin, domain_may_borrow_at(pl, d)))
		return;
	place_refresh(pl, d);
}

/*
 * One step towards queues that say who may borrow now: a domain whose time to borrow has come again, or a sleeper
 * whose own timer is a little late (it counts again once it wakes). Returns 0 when there is nothing to do.
 */
core_fn place_settle(struct place __arena *pl in_arena, u64 now_ns)
{
	struct heap_link __arena *top = pl->ahead.top;
	struct domain __arena *d;

	if (top && !vtime_before(pl->root.vmin, top->major)) {
		place_refresh(pl, domain_of_upcoming(top));
		return pl->ahead.top != top;
	}
	top = pl->due.top;
	if (!top || top->major > now_ns)
		return 0;
	d = domain_of_upcoming(top);
	if (!d->asleep.top || d->asleep.top->major > now_ns)
		return 0;
	heap_remove(&d->asleep, d->asleep.top);
	place_refresh(pl, d);
	return 1;
}

/* The waiting member whose due event expired first among the domains that may borrow; NULL if none has. */
static __always_inline struct member __arena *place_expired(struct place __arena *pl, u64 now_ns)
{
	struct heap_link __arena *top = pl->due.top;

	return top && top->major <= now_ns ? domain_expired(domain_of_upcoming(top), now_ns) : NULL;
}

static __always_inline int place_may_borrow(const struct place __arena *pl,
					    const struct domain __arena *d)
{
	return place_root_may_borrow(pl) &&
	       !vtime_before(pl->root.vmin, domain_may_borrow_at(pl, d));
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

/* By virtual time, and periods, at each level from `g` down; `running` competes at every level that it is below. */
core_fn place_choose_fair(struct group __arena *g in_arena,
			  struct tree_node __arena *running in_arena, u64 now_ns,
			  struct choice __arena *c in_arena)
{
	struct tree_node __arena *first, *up, *n = NULL;
	u8 looks = c->looks;

	for (int level = 0; level <= TREE_LEVELS_MAX; level++) {
		if (g->node.kind == NODE_COOP) {
			struct member __arena *m = domain_choose(
				domain_of(g), running ? member_of(running) : NULL, now_ns);

			n = m ? &m->node : NULL;
			break;
		}
		first = group_next(g);
		n = first;
		/* Of a group with one active member that is the one to run, and whoever runs is below it. */
		if (running && (!first || g->nr_active > 1)) {
			up = tree_member_above(running, g);
			if (up && (!first || group_before(g, up, first)))
				n = up;
			if (n != up)
				running = NULL;
		}
		/*
		 * It is the smallest of the runnable ones; the one that was may have left without being charged. The
		 * time of an RC group is the clock's.
		 */
		if (n && !looks && vtime_before(g->vmin, n->vtime) && g->node.kind != NODE_RC)
			g->vmin = n->vtime;
		if (!n || n->kind == NODE_TASK)
			break;
		g = group_of(n);
	}
	c->task = n;
	return 0;
}

/*
 * Virtual time would have a domain run now that is due in a moment: would it, its due event had to wait for the event
 * that it begins now. So an outsider goes first until then, the best of the others if that is one, unless it
 * is ahead by more than a slice, its own or of nice 0: it gets nothing that it would not get next. Returns whether there
 * is such a one, the choice's `task` then.
 */
core_fn place_make_room(struct place __arena *pl in_arena, struct domain __arena *d in_arena,
			struct tree_node __arena *running in_arena, u64 now_ns,
			struct choice __arena *c in_arena)
{
	struct tree_node __arena *n = &d->group.node, *up, *other;
	u64 due_ns = domain_next_due_ns(d), weight;

	up = running ? tree_member_above(running, &pl->root) : NULL;
	other = group_first(&pl->root);
	if (other == n)
		other = group_second(&pl->root);
	if (up && up != n && (!other || vtime_before(up->vtime, other->vtime)))
		other = up;
	if (!other || other->kind == NODE_COOP)
		return 0;
	if (n == up && member_of(running)->due_ns < due_ns)
		due_ns = member_of(running)->due_ns;
	weight = node_weight(other) > WEIGHT_ONE ? node_weight(other) : WEIGHT_ONE;
	if (due_ns <= now_ns || due_ns - now_ns > d->grace_ns ||
	    (d->upcoming.queued && d->is_ahead) || !place_may_borrow(pl, d) ||
	    vtime_before(n->vtime + vtime_of_ns(pl->quantum_ns, weight), other->vtime))
		return 0;
	c->task = other;
	return 1;
}

/* By virtual time, but that a domain which is due in a moment makes room. */
static __always_inline void place_choose_by_vtime(struct place __arena *pl,
						  struct tree_node __arena *running, u64 now_ns,
						  struct choice __arena *c)
{
	struct tree_node __arena *n;
	struct group __arena *g;

	place_choose_fair(place_head(pl), running, now_ns, c);
	n = c->task;
	/* Nobody else waits, most often: that is seen at once. */
	if (!n || n->parent->node.kind != NODE_COOP || pl->root.nr_active < 2)
		return;
	/* Where several members work, one is always due soon: the domain would make room until it has to catch up. */
	g = n->parent;
	if (g->nr_active > 1)
		return;
	if (!place_make_room(pl, domain_of(g), running, now_ns, c))
		return;
	n = c->task;
	if (n->kind != NODE_TASK)
		place_choose_fair(group_of(n), running, now_ns, c);
}

/*
 * Chooses who runs next. `running`, if not NULL, is an active task of this place that has just run, is charged,
 * does not wait, and may go on. Nothing is taken out of the queues, except late sleepers.
 */
core_fn place_choose(struct place __arena *pl in_arena, struct tree_node __arena *running in_arena,
		     u64 now_ns, struct choice __arena *c in_arena)
{
	struct member __arena *m;
	struct domain __arena *d;

	c->due_ns = NEVER_NS;
	if (pl->ahead.top || (pl->due.top && pl->due.top->major <= now_ns)) {
		while (can_loop) {
			if (!place_settle(pl, now_ns))
				break;
		}
	}
	m = place_expired(pl, now_ns);
	if (m && !place_root_may_borrow(pl))
		m = NULL;
	if (running && running->parent->node.kind == NODE_COOP) {
		struct member __arena *r = member_of(running);

		d = domain_of(running->parent);
		if (r->due_ns <= now_ns && member_due_counts(r, d) && place_may_borrow(pl, d) &&
		    (!m || r->due_ns <= m->due.major))
			m = r;
	}
	if (!m) {
		place_choose_by_vtime(pl, running, now_ns, c);
		return 0;
	}
	c->task = &m->node;
	c->due_ns = &m->node == running ? m->due_ns : m->due.major;
	return 0;
}

/* When a task of a class that is about to run gives way to the root's domains, the first of which is due at `due_ns`. */
static __always_inline u64 place_class_yields_at_ns(const struct place __arena *pl,
						    const struct tree_node __arena *class,
						    u64 now_ns, u64 due_ns)
{
	u64 behind_ns = vtime_to_ns(root_may_borrow_at(pl) - class->vtime, node_weight(class));

	return due_ns < now_ns + behind_ns ? now_ns + behind_ns : due_ns;
}

/* Times that are computed from virtual times are a little early: never find the domain still ahead. */
#define AHEAD_MARGIN_NS 1000

/* When the first of the domains that have borrowed enough is due and may borrow again, if `top` runs until then. */
static __always_inline u64 place_ahead_until_ns(const struct place __arena *pl,
						struct tree_node __arena *top, u64 now_ns)
{
	struct heap_link __arena *ahead = pl->ahead.top;
	struct domain __arena *d;
	u64 at_ns, due_ns;

	if (!ahead || !vtime_before(top->vtime, ahead->major))
		return NEVER_NS;
	d = domain_of_upcoming(ahead);
	if (&d->group.node == top)
		return NEVER_NS;
	at_ns = now_ns + vtime_to_ns(ahead->major - top->vtime, node_weight(top)) + AHEAD_MARGIN_NS;
	due_ns = domain_next_due_ns(d);
	return due_ns < at_ns ? at_ns : due_ns;
}

/*
 * Whether a domain that is about to run is ahead of somebody who waits, and so runs for a due event alone: it gives way
 * as soon as that is done. With a slice for each, due events would take the CPU until the window is used up.
 */
static __always_inline int place_borrows(struct place __arena *pl,
					 const struct tree_node __arena *top)
{
	struct tree_node __arena *first = group_first(&pl->root);

	return top->kind == NODE_COOP && first && first != top &&
	       vtime_before(first->vtime, top->vtime);
}

/*
 * When the task that is about to run should be compared again: the end of its slice if others wait, or the next
 * due time of a domain that may run then. A domain that is behind the running task gets the CPU at its
 * due time; one that is ahead, when the running task has caught up (000 Figure 2.17).
 */
static __always_inline u64 place_compare_at_ns(struct place __arena *pl,
					       struct tree_node __arena *running, u64 now_ns,
					       u64 slice)
{
	struct heap_link __arena *upcoming = pl->due.top;
	u64 at_ns = place_head(pl)->ready.top ? now_ns + slice : NEVER_NS, due_ns;
	struct tree_node __arena *top;

	/* No domain is there. */
	if (!upcoming && !pl->ahead.top && running->parent->node.kind != NODE_COOP)
		return at_ns;
	top = tree_member_above(running, &pl->root);
	if (top && place_borrows(pl, top))
		at_ns = now_ns;
	due_ns = top ? place_ahead_until_ns(pl, top, now_ns) : NEVER_NS;
	if (due_ns < at_ns)
		at_ns = due_ns;
	if (!upcoming || (top && !place_root_may_borrow(pl)))
		return at_ns;
	due_ns = upcoming->major;
	if (due_ns >= at_ns)
		return at_ns;
	if (!top) {
		top = tree_member_above(running, &pl->top);
		if (!top)
			return at_ns;
		due_ns = place_class_yields_at_ns(pl, top, now_ns, due_ns);
	} else if (&domain_of_upcoming(upcoming)->group.node != top) {
		struct domain __arena *d = domain_of_upcoming(upcoming);
		u64 behind_ns =
			vtime_to_ns(domain_may_borrow_at(pl, d) - top->vtime, node_weight(top));

		if (due_ns < now_ns + behind_ns)
			due_ns = now_ns + behind_ns;
	}
	return due_ns < at_ns ? due_ns : at_ns;
}

#endif
