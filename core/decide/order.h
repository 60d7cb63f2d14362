/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Order: in which order the best-effort events of a domain's members are served.
 *
 * Problem  Keys may be equal, and those of two programs that know nothing of each other often are.
 * Rule     The smallest key goes first: (priority, key) as published, the fewest due events, or the least CPU time, as the
 *          domain's order says (enum coop_order). Of equal ones that member goes first whose turn begins first, until it has had
 *          a turn's CPU time, or a due event. As published, turns begin in virtual time: after what the one before has used,
 *          by the member's weight, and not before those that have begun (start tags). By progress they begin when the one
 *          before has ended. A turn that others cut short goes on later.
 * Bound    With equal keys, the CPU time of members that want it is as their weights, but for a turn and a slice: a turn ends when
 *          its member is next compared.
 * Source   000 section 2.3.3 has keys and no rule for equal ones; start-time fair queueing (Goyal, Vin and Cheng 1996).
 * Limits   Turns of members with smaller keys begin, too: beside these, members with equal larger keys have equally long turns,
 *          whatever they weigh. Of members that announce due events a turn is as long as several of their events.
 */
#ifndef CORE_DECIDE_ORDER_H
#define CORE_DECIDE_ORDER_H

#include "../domain.h"

/* How long a turn of a member that announces due events is, in CPU time: shorter turns leave all unfinished. */
#define TURN_NS 100000000ULL
/* The same for members that announce none: nothing of theirs is in the middle, unless they announce what is done (progress). */
#define TURN_UNDUE_NS 2000000ULL

/* Turns are compared in 2^26 of virtual time, 2^16 ns for nice 0: in 32 bits those of a day and a half are. */
#define TURN_SHIFT 26

/* Puts interrupted members before every best-effort event. */
#define INTERRUPTED_FIRST (1ULL << 62)

/* Puts members without a best-effort event behind those that have one. */
#define NOTHING_TO_DO (1ULL << 61)

/* The domain's virtual time at which the member is, or was, out of due debt. */
static __always_inline u64 member_out_of_debt_at(const struct member __arena *m,
						 const struct domain __arena *d)
{
	return m->debt_vtime - m->debt_credit - vtime_of_ns(d->grace_ns, m->node.weight);
}

/* Whether a member's due event counts: it is not in due debt. */
static __always_inline int member_due_counts(const struct member __arena *m,
					     const struct domain __arena *d)
{
	return !vtime_before(domain_clock(d), member_out_of_debt_at(m, d));
}

/*
 * Due events that a member has had. One that it announces counts: what is to be shown then is ready. A member that announces none
 * has had no more than its domain's least: else one that has stopped to announce any would wait for ever beside those that never
 * do.
 */
static __always_inline u64 member_progress(const struct member __arena *m,
					   const struct domain __arena *d)
{
	if (m->due_ns != NEVER_NS)
		return m->served + 1;
	return m->served < d->served_least ? m->served : d->served_least;
}

/*
 * The key of a member's best-effort event in the domain's order. In due debt it has none that counts: else a member
 * could be always due, and when that is used up, always the most important.
 */
static __always_inline void member_best_key(const struct member __arena *m,
					    const struct domain __arena *d, u64 *major, u64 *minor)
{
	switch (d->order) {
	case ORDER_PROGRESS:
		*major = member_progress(m, d) + (m->priority == PRIORITY_NONE ? NOTHING_TO_DO : 0);
		*minor = m->turn_ns;
		break;
	case ORDER_SERVICE:
		*major = m->node.vtime;
		*minor = m->priority == PRIORITY_NONE;
		break;
	default:
		*major = member_due_counts(m, d) ? m->priority : PRIORITY_NONE;
		*minor = m->key;
	}
	/* An event that was interrupted is not over: the member's own due event would wait for the rest of it. */
	if (m->interrupted)
		*major -= INTERRUPTED_FIRST;
}

/* When its turn among those with its key begins, for a heap. */
static __always_inline u32 member_turn(const struct member __arena *m)
{
	return (u32)(m->turn_from >> TURN_SHIFT);
}

/* A member begins to wait for its turn. What it did not use is not saved up. */
core_fn member_await_turn(struct member __arena *m in_arena, struct domain __arena *d in_arena)
{
	m->turn_from = vtime_max(m->turn_from, d->turn_least);
	m->node.ready.turn = member_turn(m);
	return 0;
}

/* A member's turn begins, if that is why it runs. */
static __always_inline struct member __arena *domain_begin_turn(struct domain __arena *d,
								struct member __arena *m)
{
	d->turn_least = vtime_max(d->turn_least, m->turn_from);
	return m;
}

/* What a turn is worth in the domain's virtual time, for a member that announces `due_ns`. */
static __always_inline u64 member_turn_vtime(const struct member __arena *m,
					     const struct domain __arena *d, u64 due_ns)
{
	int is_short = due_ns == NEVER_NS && d->order != ORDER_PROGRESS;

	return vtime_of_ns(is_short ? TURN_UNDUE_NS : TURN_NS, m->node.weight);
}

/*
 * Takes over what a member of the domain published; if its turn is over, others with its key are next. Who announces no due event
 * has had as many as its domain's least.
 */
static __always_inline void member_publish(struct member __arena *m, const struct domain __arena *d,
					   u64 due_ns, u32 priority, u64 key, u64 now_ns)
{
	u64 progress = member_progress(m, d);

	if (m->due_ns <= now_ns && due_ns > m->due_ns)
		m->served++;
	m->due_ns = due_ns;
	if (member_progress(m, d) > progress ||
	    m->node.vtime - m->turn_vtime > member_turn_vtime(m, d, due_ns)) {
		m->turn_ns = now_ns;
		m->turn_from += m->node.vtime - m->turn_vtime;
		m->turn_vtime = m->node.vtime;
		if (due_ns == NEVER_NS && m->served < d->served_least)
			m->served = d->served_least;
	}
	m->priority = priority;
	m->key = key;
}

#endif
