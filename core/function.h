/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Functions: what decides which member of a group runs next, where the members do not.
 *
 * Problem  The members of a cooperation domain say themselves when they are due and what is important to them. Most programs'
 *          threads say nothing.
 * Rule     A group's function publishes for its members: when each is due, until when, and its place among those that are
 *          not. From then on they are members of a domain (decide/coop.h) that is preempted at due times, and nobody but
 *          its seats pays (seat.h). A role's terms may make its thread due: by a plan (function/plan.h), or after
 *          another one's submission (function/follow.h). The function orders the others.
 * Bound    That of decide/coop.h, place.h and seat.h: a function decides when, never how much.
 * Source   003 section 3.2.3 (scheduling decision functions); that they become due times is ours: all bounds that hold for
 *          these hold for any function.
 * Limits   A function is asked when a member begins to wait, sleeps or wakes, and of one that waits, when another one gives
 *          the CPU up.
 *
 * This is the only place in which kinds of functions are told apart; each has a file of its own in function/.
 */
#ifndef CORE_FUNCTION_H
#define CORE_FUNCTION_H

#include "function/follow.h"
#include "function/period.h"
#include "function/pipeline.h"
#include "function/plan.h"
#include "function/user.h"
#include "seat.h"

/*
 * Tells the host, if it wants to know, what becomes of a role's interval: enum interval_became. `why`: of those
 * that are missed, enum miss. `late_ns`: of one that begins. `count`: of those that were passed over, how many.
 */
#ifndef role_tells
#define role_tells(r, became, why, late_ns, count, now_ns) ((void)(became))
#endif

/*
 * Why a role's thread has not run in the interval that is over. Whenever a thread comes, goes, wakes or sleeps its role is
 * looked at: between two looks it has been one of these.
 */
static __always_inline enum miss role_missed_for(const struct role __arena *r)
{
	const struct member __arena *m = r->member;
	const struct domain __arena *d;

	if (!m)
		return MISS_VACANT;
	if (!m->seat)
		return MISS_OUTSIDE;
	if (!m->node.active || r->awake_ns >= r->until_ns)
		return MISS_ASLEEP;
	d = m->seat->domain;
	return d->blocked_in || d->nr_blocked != r->nr_blocked ? MISS_SHARE : MISS_OTHERS;
}

/* When plans begin; those of a pipeline not before that is filled. */
static __always_inline u64 function_zero_ns(const struct function __arena *f)
{
	return f->is_booted ? f->zero_ns : NEVER_NS;
}

/* The role's interval is over, or another one takes its place: what became of it. */
static __always_inline void role_close(struct role __arena *r, enum miss why, u64 now_ns)
{
	enum interval_became became = INTERVAL_MISSED;

	/* There was none, or another one takes its place before it begins. */
	if (r->from_ns == NEVER_NS || r->from_ns > now_ns)
		return;
	if (r->has_run || r->is_done) {
		became = INTERVAL_KEPT;
		r->kept++;
	} else if (now_ns < r->until_ns) {
		became = INTERVAL_DROPPED;
	} else {
		r->missed[why]++;
	}
	role_tells(r, became, why, 0, 1, now_ns);
}

/* The role has got another plan, or none. */
static __always_inline void role_forget(struct role __arena *r, u64 now_ns)
{
	role_close(r, role_missed_for(r), now_ns);
	plan_forget(r);
}

/* Takes the plan's next interval. Those that nobody has looked at were missed, for the same cause as the one before. */
static __always_inline void role_follow_plan(struct role __arena *r, u64 zero_ns, enum miss why,
					     u64 now_ns)
{
	u64 passed = plan_advance(r, zero_ns, now_ns);

	r->missed[why] += passed;
	if (passed)
		role_tells(r, INTERVAL_PASSED, why, 0, passed, now_ns);
}

/* Makes the role's interval what it is by now: those that are over are counted, and the next one is taken. */
core_fn role_advance(struct role __arena *r in_arena, u64 now_ns)
{
	u64 zero_ns = function_zero_ns(r->function);
	int is_asked = follow_is_asked(r);
	enum miss why;

	if (r->until_ns > now_ns && (r->follows ? !is_asked : r->zero_ns == zero_ns))
		return 0;
	why = role_missed_for(r);
	role_close(r, why, now_ns);
	if (is_asked) {
		follow_take(r);
		/* It may not have been told in time. */
		if (r->until_ns <= now_ns)
			role_close(r, why, now_ns);
	}
	if (is_asked && r->until_ns > now_ns) {
		r->zero_ns = zero_ns;
	} else if (!r->follows && r->plan && zero_ns != NEVER_NS) {
		role_follow_plan(r, zero_ns, why, now_ns);
	} else {
		plan_rest(r);
		r->zero_ns = zero_ns;
	}
	if (r->member && r->member->seat)
		r->nr_blocked = r->member->seat->domain->nr_blocked;
	return 0;
}

/* Whether the role's thread is to run at `now_ns`, and before the rest of its group. */
static __always_inline int role_is_on(const struct role __arena *r, u64 now_ns)
{
	return r->from_ns <= now_ns && now_ns < r->until_ns && !r->is_done;
}

/* The place of a member among those that are not due: the smallest goes first. */
static __always_inline u64 function_key(const struct role __arena *r)
{
	switch (r->function->kind) {
	case FUNCTION_PERIOD:
		return period_key(r);
	case FUNCTION_PIPELINE:
		return r->rank;
	case FUNCTION_USER:
		return user_key(r);
	default:
		return r->number;
	}
}

/* From when on a role's thread is due: in its interval, or in that of another stage in whose stead it runs. */
static __always_inline u64 role_due_ns(const struct role __arena *r, u64 now_ns)
{
	u64 due_ns = r->is_done ? NEVER_NS : r->from_ns;

	if (now_ns < r->stead_until_ns && r->stead_from_ns < due_ns)
		return r->stead_from_ns;
	return due_ns;
}

/*
 * What a role's thread is told: when its interval begins and ends, and how many it has missed; or what a function of the user's
 * own has written.
 */
static __always_inline void function_answer(struct role __arena *r)
{
	u64 missed = 0;

	if (r->function->kind == FUNCTION_USER)
		return;
	for (u32 i = 0; i < NR_MISSES; i++)
		missed += r->missed[i];
	r->control[0] = r->from_ns;
	r->control[1] = r->until_ns;
	r->control[2] = missed;
}

/* Plans are to begin, or to go on, so that their relative times are 0 at `zero_ns`. */
static __always_inline void function_start(struct function __arena *f, u64 zero_ns, u64 now_ns)
{
	f->zero_ns = zero_ns;
	f->begun_ns = zero_ns != NEVER_NS && zero_ns > now_ns ? zero_ns : now_ns;
	f->is_booted = !f->bootstrap;
}

/*
 * A role's thread, or somebody in its stead, has told how often it has submitted, finished something, begun. Returns whether
 * others are concerned.
 */
static __always_inline int function_tell(struct role __arena *r, u32 submissions, u32 done,
					 u32 triggers, u64 now_ns)
{
	int concerns = 0;

	if (triggers != r->triggers) {
		r->triggers = triggers;
		function_start(r->function, now_ns, now_ns);
		concerns = 1;
	}
	if (done != r->done) {
		r->done = done;
		if (role_is_on(r, now_ns))
			r->is_done = 1;
	}
	if (submissions != r->submissions) {
		if (!(submissions & 1) || submissions - r->submissions > 1) {
			r->submitted_ns = now_ns;
			concerns = 1;
		}
		r->submissions = submissions;
	}
	return concerns;
}

/* What a member weighs, and all active ones of its group. */
static __always_inline u64 function_budget_ns(const struct member __arena *m)
{
	return period_budget_ns(m->role, m->node.weight,
				m->seat ? m->seat->domain->group.weight_active : 0);
}

/*
 * Publishes for a member that is in no queue, or is put into another place there. Always inline: Linux 6.18 lets functions
 * call eight deep.
 */
static __always_inline void function_publish(struct member __arena *m, u64 now_ns)
{
	struct role __arena *r = m->role;

	m->due_ns = NEVER_NS;
	/* It is due when the function says so, and no longer: there is no debt to be made. */
	m->run_due_ns = NEVER_NS;
	if (m->seat)
		m->debt_vtime = domain_clock(m->seat->domain);
	m->priority = 0;
	m->key = ROLES_MAX;
	if (!r)
		return;
	role_advance(r, now_ns);
	m->due_ns = role_due_ns(r, now_ns);
	m->key = function_key(r);
	function_answer(r);
}

/* Looks again at a member that waits. Returns whether something about it has become another thing. */
core_fn function_renew(struct domain __arena *d in_arena, struct member __arena *m in_arena,
		       u64 now_ns)
{
	u64 due_ns, key;

	if (!m || !m->node.ready.queued)
		return 0;
	due_ns = m->due_ns;
	key = m->key;
	function_publish(m, now_ns);
	if (m->due_ns != due_ns) {
		domain_cease_due(d, m);
		domain_await_due(d, m, now_ns);
	}
	if (m->key != key && d->order == ORDER_FUNCTION)
		heap_move(&d->group.ready, &m->node.ready, m->priority, m->key);
	return m->due_ns != due_ns || m->key != key;
}

/* A member is awake from now on. */
static __always_inline void function_wake(struct member __arena *m, u64 now_ns)
{
	struct role __arena *r = m->role;

	if (r) {
		r->awake_ns = now_ns;
		if (r->function->kind == FUNCTION_PERIOD)
			period_begin(r, function_budget_ns(m), now_ns);
	}
	function_publish(m, now_ns);
}

/* A member, which has run since it was asked, sleeps: a server has done what there was. */
static __always_inline int function_sleep(struct member __arena *m, u64 now_ns)
{
	struct role __arena *r = m->role;

	if (!r)
		return 0;
	if (r->follows && r->has_run && role_is_on(r, now_ns))
		r->is_done = 1;
	/* In the middle of a submission: it waits for its server. */
	if (!(r->submissions & 1))
		return 0;
	r->submitted_ns = now_ns;
	return 1;
}

/* A member has the CPU, since `began_ns` for all that is known. */
static __always_inline void function_begin(struct member __arena *m, u64 began_ns, u64 now_ns)
{
	struct role __arena *r = m->role;
	u64 from_ns, late_ns;

	if (!r || r->has_run || !role_is_on(r, now_ns))
		return;
	r->has_run = 1;
	if (r->follows)
		r->until_ns = now_ns + r->follow_ns;
	from_ns = r->from_ns > r->awake_ns ? r->from_ns : r->awake_ns;
	late_ns = began_ns > from_ns ? began_ns - from_ns : 0;
	r->late_ns += late_ns;
	if (late_ns > r->late_max_ns)
		r->late_max_ns = late_ns;
	role_tells(r, INTERVAL_BEGAN, 0, late_ns, 1, now_ns);
}

/*
 * It has had the CPU from `began_ns` until now: in its interval, perhaps, that began, or even ended, meanwhile. `total_ns` is
 * the CPU time that it has had as the kernel counts it; 0: that is not known yet.
 */
static __always_inline void function_ran(struct member __arena *m, u64 total_ns, u64 began_ns,
					 u64 now_ns)
{
	struct role __arena *r = m->role;
	u64 ran_ns;

	if (!r)
		return;
	if (!r->has_run && began_ns < now_ns && r->from_ns < now_ns && began_ns < r->until_ns) {
		r->has_run = 1;
		role_tells(r, INTERVAL_BEGAN, 0, 0, 1, now_ns);
	}
	if (total_ns <= r->total_ns)
		return;
	ran_ns = total_ns - r->total_ns;
	r->total_ns = total_ns;
	r->ran_ns += ran_ns;
	if (r->function->kind == FUNCTION_PERIOD)
		period_use(r, function_budget_ns(m), ran_ns, now_ns);
}

/*
 * When a running member's interval ends, or that in which it runs; NEVER_NS: there is none. Also of one that is still to
 * begin: two that are over between two looks could not be told apart.
 */
static __always_inline u64 function_ends_ns(const struct member __arena *m, u64 now_ns)
{
	const struct role __arena *r = m->role;

	if (!r)
		return NEVER_NS;
	if (now_ns < r->stead_until_ns && r->stead_until_ns < r->until_ns)
		return r->stead_until_ns;
	return r->until_ns;
}

/* When a running member is to be compared, as another one of its group may go before it by then. */
static __always_inline u64 function_asks_at_ns(struct domain __arena *d,
					       const struct member __arena *m, u64 now_ns,
					       u64 lead_ns)
{
	struct tree_node __arena *first = group_first(&d->group);
	u64 at_ns = NEVER_NS;

	if (d->order == ORDER_SERVICE)
		return coop_asks_at_ns(d, m, now_ns, lead_ns);
	if (d->function->kind == FUNCTION_USER) {
		at_ns = user_asks_at_ns(d->function, now_ns);
		if (at_ns <= now_ns)
			return now_ns;
	}
	if (!first)
		return at_ns;
	if (heap_key_before(first->ready.major, first->ready.minor, m->priority, m->key))
		return now_ns;
	if (d->function->kind == FUNCTION_PERIOD && m->role && m->role->period_ns)
		return now_ns + m->role->left_ns;
	return at_ns;
}

#endif
