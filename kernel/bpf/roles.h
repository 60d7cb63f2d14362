/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Roles: what the threads of a group with a function publish, and when the function looks at it. The functions are core's
 * (core/function.h), how a thread comes to a role is membership (members.h).
 *
 * A thread's words are read when it gives the CPU up, and copied: nothing that it writes later changes what has been
 * decided.
 *
 * Every function here is called with the lock of the task's shard held, but where it says otherwise.
 */
#ifndef CONSORT_ROLES_H
#define CONSORT_ROLES_H

#include "asks.h"

_Static_assert((int)FUNCTION_FAIR == CONSORT_FUNCTION_FAIR &&
		       (int)FUNCTION_PERIOD == CONSORT_FUNCTION_PERIOD &&
		       (int)FUNCTION_PLAN == CONSORT_FUNCTION_PLAN &&
		       (int)FUNCTION_PIPELINE == CONSORT_FUNCTION_PIPELINE &&
		       (int)FUNCTION_FOLLOW == CONSORT_FUNCTION_FOLLOW &&
		       (int)FUNCTION_USER == CONSORT_FUNCTION_USER,
	       "kinds have the numbers that files and programs give them");
_Static_assert(ROLES_MAX == CONSORT_ROLES && ROLE_VARIABLES == CONSORT_VARIABLES &&
		       NR_MISSES == CONSORT_MISSES && PLAN_INTERVALS_MAX == CONSORT_PLAN_INTERVALS,
	       "the policy has room for what its callers are promised");

/* Whether somebody else than the task publishes for it. */
static inline bool has_function(const struct task __arena *t)
{
	return t->set && t->set->function;
}

static inline struct role __arena *role_at(struct function __arena *f, u32 role)
{
	return &f->roles[role & (ROLES_MAX - 1)];
}

/* The words of the thread that plays the role; NULL: it has no page, or has it no more. */
static inline struct consort_variables *variables_of(const struct role __arena *r)
{
	struct consort_mapping *m = client_mapping(r->client);
	u32 slot = r->slot;

	if (!m || slot >= CONSORT_SLOTS)
		return NULL;
	return &m->variables[slot];
}

/* Takes over what the thread has written since it was last looked at. Returns whether that concerns others of the group. */
static inline bool role_listen(struct role __arena *r, u64 now_ns)
{
	struct consort_variables *v = r->client ? variables_of(r) : NULL;

	if (!v)
		return false;
	for (u32 i = 0; i < ROLE_VARIABLES; i++)
		r->state[i] = *(volatile s64 *)&v->state[i];
	return function_tell(r, *(volatile u32 *)&v->submissions, *(volatile u32 *)&v->done,
			     *(volatile u32 *)&v->triggers, now_ns);
}

/* A thread comes to a role: what it has told before is nobody's affair. */
static inline void role_attach(struct function __arena *f, u32 role, struct task __arena *t,
			       u32 client, u32 slot, u64 now_ns)
{
	struct role __arena *r = role_at(f, role);
	struct consort_variables *v;

	if (role >= f->nr_roles)
		f->nr_roles = role + 1;
	role_advance(r, now_ns);
	r->client = client;
	r->slot = slot;
	v = client ? variables_of(r) : NULL;
	r->submissions = v ? *(volatile u32 *)&v->submissions : 0;
	r->done = v ? *(volatile u32 *)&v->done : 0;
	r->triggers = v ? *(volatile u32 *)&v->triggers : 0;
	r->total_ns = t->charged_ns;
	r->member = &t->member;
	t->member.role = r;
}

/* A thread comes back from another class: what it had there is nothing that its role has had. */
static inline void role_came_back(struct task __arena *t)
{
	unsigned long flags;
	struct lock __arena *l;

	bpf_local_irq_save(&flags);
	l = task_lock(t);
	if (t->member.role)
		t->member.role->total_ns = t->charged_ns;
	lock_release(l);
	bpf_local_irq_restore(&flags);
}

static inline void role_detach(struct task __arena *t)
{
	struct role __arena *r = t->member.role;

	if (!r)
		return;
	role_advance(r, bpf_ktime_get_ns());
	t->member.role = NULL;
	r->member = NULL;
	/* Its number may become another program's. */
	r->client = 0;
}

/* Tells the thread what its function has for it. */
static inline void role_answer(const struct role __arena *r)
{
	struct consort_variables *v = r->client ? variables_of(r) : NULL;

	if (!v)
		return;
	for (u32 i = 0; i < ROLE_VARIABLES; i++)
		v->control[i] = r->control[i];
}

static inline struct task __arena *player_of(const struct role __arena *r)
{
	return outer_of(r->member, struct task, member);
}

/* Publishes for a member that does not wait. One that runs is compared when its interval ends, which may be sooner now. */
static inline void role_publish(struct task __arena *t, u64 now_ns)
{
	const struct consort_cpu __arena *c = cpu_at(t->cpu);

	function_publish(&t->member, now_ns);
	if (c->running == t && function_ends_ns(&t->member, now_ns) < c->compare_at_ns)
		kick(t->cpu, KICK(PREEMPT));
}

/* Something about a member's role may have become another thing. Returns whether it waits, and may go before others now. */
static inline bool role_renew(struct task __arena *t, u64 now_ns)
{
	struct domain __arena *d;

	if (!in_domain(t) || t->on_the_way)
		return false;
	if (!t->member.node.ready.queued) {
		role_publish(t, now_ns);
		return false;
	}
	d = domain_in(t->set, t->place);
	if (!function_renew(d, &t->member, now_ns))
		return false;
	place_refresh(place_at(t->place), d);
	return true;
}

/* What one member has told may make others of its group due, or no longer: those of its shard. */
core_fn roles_renew(struct task __arena *t in_arena, u64 now_ns)
{
	struct function __arena *f = t->set->function;
	u32 shard = shard_of_place(t->place);

	for (u32 i = hidden(0); i < f->nr_roles && i < ROLES_MAX && can_loop; i = hidden(i + 1)) {
		struct role __arena *r = &f->roles[i];
		struct task __arena *other;

		if (!r->member || r->member == &t->member)
			continue;
		other = player_of(r);
		if (one_cpu || shard_of_place(other->place) == shard)
			role_renew(other, now_ns);
	}
	return 0;
}

/* The levels of a pipeline's queues: any of its threads may have changed any of them. */
core_fn pipeline_listen(struct function __arena *f in_arena, u64 now_ns)
{
	for (u32 i = hidden(0); i < f->nr_roles && i < ROLES_MAX && can_loop; i = hidden(i + 1)) {
		struct role __arena *r = role_at(f, i);
		struct consort_variables *v = r->client && r->high ? variables_of(r) : NULL;

		if (v)
			r->state[0] = *(volatile s64 *)&v->state[0];
	}
	return pipeline_look(f, now_ns);
}

/*
 * A member gives the CPU up, or is compared, after it has had it from `began_ns` on, `total_ns` in all. Asleep, it may have
 * done what it was to do.
 */
core_fn role_look(struct task __arena *t in_arena, u64 total_ns, u64 began_ns, u64 now_ns)
{
	struct function __arena *f = t->set->function;
	struct member __arena *m = &t->member;
	bool concerns = false;

	function_ran(m, total_ns, began_ns, now_ns);
	if (m->role)
		concerns = role_listen(m->role, now_ns);
	if (!total_ns)
		concerns |= function_sleep(m, now_ns);
	if (f->kind == FUNCTION_PIPELINE) {
		pipeline_listen(f, now_ns);
		concerns = true;
	}
	function_publish(m, now_ns);
	if (concerns)
		roles_renew(t, now_ns);
	return 0;
}

/* The same of one that has gone to sleep: how much it has had is known later. */
static inline void role_sleeps(struct task __arena *t, u64 now_ns)
{
	const struct consort_cpu __arena *c = cpu_at(t->cpu);
	struct member __arena *m = &t->member;
	struct domain __arena *d;

	role_look(t, 0, c->running == t ? c->since_ns : now_ns, now_ns);
	asks_note(t);
	if (!in_domain(t) || m->due_ns == NEVER_NS || m->due_ns <= now_ns)
		return;
	d = domain_in(t->set, t->place);
	domain_sleep(d, m);
	place_refresh(place_at(t->place), d);
}

/*
 * A member is awake from now on. Where it follows a thread that publishes nothing, and that one wakes it, that has submitted
 * something.
 */
static inline void role_wakes(struct task __arena *t, u64 now_ns)
{
	struct role __arena *r = t->member.role, *leader = r ? follow_leader(r) : NULL;

	if (leader && !leader->client && leader->member &&
	    player_of(leader) == task_of(bpf_get_current_task_btf()))
		leader->submitted_ns = now_ns;
	function_wake(&t->member, now_ns);
	asks_note(t);
}

/*
 * One that runs or waits was moved: no wake-up follows, which would have its CPU ask, or compare it with those of its group
 * that are where it has come to.
 */
static inline void role_moved(const struct task __arena *t)
{
	if (has_function(t))
		kick(t->cpu, KICK(PREEMPT));
}

/* When a member that is about to run is to be compared with others of its group. Its interval may be over by now. */
static inline u64 role_asks_at_ns(struct domain __arena *d, struct task __arena *t, u64 now_ns,
				  u64 slice)
{
	function_publish(&t->member, now_ns);
	return function_asks_at_ns(d, &t->member, now_ns, slice);
}

/* A member is about to run, or goes on. Returns when it is to be compared: at `at_ns`, or when its interval ends. */
static inline u64 role_begins(const struct consort_cpu __arena *c, struct task __arena *t,
			      u64 at_ns, u64 now_ns)
{
	struct member __arena *m = &t->member;
	u64 ends_ns = function_ends_ns(m, now_ns);

	function_begin(m, c->running == t ? c->since_ns : now_ns, now_ns);
	if (m->role)
		role_answer(m->role);
	return ends_ns < at_ns ? ends_ns : at_ns;
}

#endif
