/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the daemon says of a group's roles: their terms, plans, what threads without a page would publish; and what it asks.
 *
 * The daemon calls one of these programs at a time. A role that is played is changed with its thread's lock; one that is
 * vacant nobody looks at.
 */
#ifndef CONSORT_FUNCTIONS_H
#define CONSORT_FUNCTIONS_H

#include "join.h"

/* The part of a plan that is being handed over, written by the loader before it calls consort_plan. */
struct consort_interval plan_part[CONSORT_PLAN_PART];

/* A role, while nobody else looks at it. */
struct held_role {
	struct role __arena *r;
	struct task __arena *t; /* who plays it; NULL: it is vacant */
	struct lock __arena *l;
	unsigned long flags;
};

/* How often a role may get another thread, or none, while its lock is being taken. */
#define ROLE_HOLD_TURNS 100

static inline void role_hold(struct held_role *h, struct role __arena *r)
{
	int turn;

	h->r = r;
	h->t = NULL;
	bpf_local_irq_save(&h->flags);
	bpf_for(turn, 0, ROLE_HOLD_TURNS)
	{
		struct member __arena *m = r->member;

		if (!m)
			return;
		h->t = outer_of(m, struct task, member);
		h->l = task_lock(h->t);
		if (r->member == m)
			return;
		lock_release(h->l);
		h->t = NULL;
	}
}

static inline void role_let_go(struct held_role *h)
{
	if (h->t)
		lock_release(h->l);
	bpf_local_irq_restore(&h->flags);
}

/* A role is looked at again, and the CPU of its thread, if that waits, chooses again. */
static inline void role_changed(const struct held_role *h, u64 now_ns)
{
	role_advance(h->r, now_ns);
	if (h->t && role_renew(h->t, now_ns))
		kick(h->t->cpu, KICK(PREEMPT));
}

core_fn roles_changed(struct domain_set __arena *set in_arena)
{
	u64 now_ns = bpf_ktime_get_ns();

	if (set->function->kind == FUNCTION_PIPELINE)
		pipeline_listen(set->function, now_ns);
	for (u32 i = hidden(0); i < set->function->nr_roles && i < ROLES_MAX && can_loop;
	     i = hidden(i + 1)) {
		struct held_role h;

		role_hold(&h, role_at(set->function, i));
		role_changed(&h, now_ns);
		role_let_go(&h);
	}
	return 0;
}

/* A group that has a function, and a role in it; NULL: there is none, and `error` says why. */
static inline struct domain_set __arena *find_function(u32 domain, u32 role, u32 *error)
{
	struct domain_set __arena *set = find_domain_set(domain);

	*error = !set || !set->function ? ENOENT : role >= ROLES_MAX ? EINVAL : 0;
	return *error ? NULL : set;
}

/* ---- plans ---- */

static inline bool plan_begin(struct function __arena *f, const struct consort_plan_args *args)
{
	plan_free(f->staged);
	f->staged = alloc_pages(plan_bytes(args->all));
	if (!f->staged)
		return false;
	f->staged_for = args->role;
	f->staged->nr = 0;
	f->staged->nr_all = args->all;
	f->staged->repeat_ns = args->repeat_ns;
	return true;
}

/* One more interval. False: it is too short, too late, or not after the last one. */
static inline bool plan_append(struct plan __arena *p, u64 start_ns, u64 end_ns)
{
	u32 nr = p->nr;

	if (end_ns > CONSORT_PLAN_MAX_NS || start_ns >= end_ns ||
	    end_ns - start_ns < CONSORT_INTERVAL_MIN_NS || (nr && start_ns < p->at[nr - 1].end_ns))
		return false;
	p->at[nr].start_ns = start_ns;
	p->at[nr].end_ns = end_ns;
	p->nr = nr + 1;
	return true;
}

/* Whether the part is one that fits what has been handed over before. */
static inline bool plan_fits(const struct function __arena *f, const struct consort_plan_args *args)
{
	if (!args->nr || args->nr > CONSORT_PLAN_PART || args->all > CONSORT_PLAN_INTERVALS ||
	    args->first + args->nr > args->all || args->repeat_ns > CONSORT_PLAN_MAX_NS)
		return false;
	return !args->first || (f->staged && f->staged_for == args->role &&
				f->staged->nr == args->first && f->staged->nr_all == args->all);
}

/* The staged plan, or none, takes the place of the role's. */
static inline void plan_commit(struct function __arena *f, u32 role)
{
	struct role __arena *r = role_at(f, role);
	struct plan __arena *old = r->plan;
	struct held_role h;

	role_hold(&h, r);
	r->plan = f->staged;
	role_forget(r, bpf_ktime_get_ns());
	role_let_go(&h);
	f->staged = NULL;
	if (role >= f->nr_roles)
		f->nr_roles = role + 1;
	plan_free(old);
}

static inline u32 part_index(u32 i)
{
	/* Keeps the compiler from proving the mask needless: the verifier cannot follow its proof. */
	asm volatile("" : "+r"(i));
	return i & (CONSORT_PLAN_PART - 1);
}

/* The intervals of a part, which has room in the plan. Returns whether they are in order. */
core_fn plan_extend(struct plan __arena *p in_arena, u32 nr)
{
	for (u32 i = hidden(0); i < nr && can_loop; i = hidden(i + 1)) {
		const struct consort_interval *at = &plan_part[part_index(i)];

		if (!plan_append(p, at->start_ns, at->end_ns))
			return 0;
	}
	return 1;
}

static inline u32 plan_load(struct function __arena *f, const struct consort_plan_args *args)
{
	struct plan __arena *p;

	if (!plan_fits(f, args))
		return EINVAL;
	if (!args->first && !plan_begin(f, args))
		return ENOMEM;
	p = f->staged;
	if (!plan_extend(p, args->nr))
		return EINVAL;
	if (p->nr < p->nr_all)
		return 0;
	if (p->repeat_ns && p->repeat_ns < p->at[p->nr - 1].end_ns)
		return EINVAL;
	plan_commit(f, args->role);
	return 0;
}

call_fn consort_plan(struct consort_plan_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set = find_function(args->domain, args->role, &args->error);

	if (!set)
		return 0;
	if (args->all) {
		args->error = plan_load(set->function, args);
	} else {
		plan_free(set->function->staged);
		set->function->staged = NULL;
		plan_commit(set->function, args->role);
	}
	if (!args->error)
		roles_changed(set);
	return 0;
}

/* ---- roles ---- */

static inline u32 role_terms(struct function __arena *f, struct role __arena *r,
			     const struct consort_role_args *args)
{
	u32 follows = args->follows == CONSORT_NO_ROLE ? 0 : args->follows + 1;

	if ((args->high && args->step > args->high) || args->period_ns > CONSORT_PERIOD_MAX_NS ||
	    args->budget_ns > args->period_ns || args->follow_ns > CONSORT_PERIOD_MAX_NS ||
	    follows > ROLES_MAX || follows == r->number + 1)
		return EINVAL;
	/* Its interval was one of a plan, or is to be one. */
	if (r->follows != follows)
		role_forget(r, bpf_ktime_get_ns());
	r->period_ns = args->period_ns;
	r->budget_ns = args->budget_ns;
	r->follow_ns = args->follow_ns;
	r->follows = follows;
	r->high = args->high;
	r->step = args->step;
	if (r->number >= f->nr_roles)
		f->nr_roles = r->number + 1;
	return 0;
}

static inline void role_status(const struct held_role *h, struct consort_role_args *args)
{
	struct role __arena *r = h->r;
	const struct task __arena *t = h->t;
	u64 now_ns = bpf_ktime_get_ns();

	/* Those that are over are counted. Its thread is looked at when it is chosen from. */
	role_advance(r, now_ns);
	args->period_ns = r->period_ns;
	args->budget_ns = r->budget_ns;
	args->follow_ns = r->follow_ns;
	args->follows = r->follows ? r->follows - 1 : CONSORT_NO_ROLE;
	args->high = r->high;
	args->step = r->step;
	args->bootstrap = r->function->bootstrap;
	args->zero_ns = r->function->zero_ns;
	for (u32 i = 0; i < ROLE_VARIABLES; i++) {
		args->state[i] = r->state[i];
		args->control[i] = r->control[i];
	}
	args->from_ns = r->from_ns;
	args->until_ns = r->until_ns;
	args->kept = r->kept;
	for (u32 i = 0; i < NR_MISSES; i++)
		args->missed[i] = r->missed[i];
	args->late_ns = r->late_ns;
	args->late_max_ns = r->late_max_ns;
	args->ran_ns = r->ran_ns;
	args->tid = t ? t->pid : 0;
	args->runs = role_is_on(r, now_ns) ? CONSORT_ROLE_ON : 0;
	if (!t)
		return;
	if (t->member.node.active)
		args->runs |= CONSORT_ROLE_AWAKE;
	if (cpu_at(t->cpu)->running == t)
		args->runs |= CONSORT_ROLE_RUNS;
	if (t->demoted)
		args->runs |= CONSORT_ROLE_OUTSIDE;
	else if (!t->on_the_way && domain_in(t->set, t->place)->blocked_in)
		args->runs |= CONSORT_ROLE_BLOCKED;
}

static inline u32 role_do(struct function __arena *f, const struct held_role *h,
			  struct consort_role_args *args)
{
	struct role __arena *r = h->r;

	switch (args->operation) {
	case CONSORT_ROLE_TERMS:
		return role_terms(f, r, args);
	case CONSORT_ROLE_STATE:
		for (u32 i = 0; i < ROLE_VARIABLES; i++)
			r->state[i] = args->state[i];
		return 0;
	case CONSORT_ROLE_TELL:
		function_tell(r, r->submissions + (args->tell & CONSORT_TELL_SUBMITTED ? 2 : 0),
			      r->done + !!(args->tell & CONSORT_TELL_DONE), r->triggers,
			      bpf_ktime_get_ns());
		return 0;
	case CONSORT_ROLE_BEGIN:
		f->bootstrap = args->bootstrap;
		function_start(f, args->zero_ns, bpf_ktime_get_ns());
		return 0;
	case CONSORT_ROLE_STATUS:
		role_status(h, args);
		return 0;
	}
	return EINVAL;
}

call_fn consort_role(struct consort_role_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set = find_function(args->domain, args->role, &args->error);
	struct held_role h;

	if (!set)
		return 0;
	role_hold(&h, role_at(set->function, args->role));
	args->error = role_do(set->function, &h, args);
	role_let_go(&h);
	if (!args->error && args->operation != CONSORT_ROLE_STATUS)
		roles_changed(set);
	return 0;
}

#endif
