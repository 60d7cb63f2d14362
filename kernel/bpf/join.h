/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Joining and leaving a domain, or a group with a function. A thread that plays a role there needs no page, may sleep
 * anywhere, and is never demoted for what it does.
 */
#ifndef CONSORT_JOIN_H
#define CONSORT_JOIN_H

#include "reservations.h"

/* Whether a thread may come to a group with that number of a role. Only of a fair one it needs none. */
static inline bool is_role(const struct function __arena *f, u32 role)
{
	return role < ROLES_MAX || (role == CONSORT_NO_ROLE && f->kind == FUNCTION_FAIR);
}

static inline bool is_played(struct function __arena *f, u32 role)
{
	return role < ROLES_MAX && role_at(f, role)->member;
}

/*
 * A new member is due at once: it has published nothing yet, and must run to do so. Its first poll is to come within
 * the domain's grace.
 */
static inline void member_join(struct task __arena *t, struct domain_set __arena *set,
			       const struct consort_join_args *args, u64 now_ns)
{
	struct consort_slot *s;

	/* Number 0 is nobody's: a thread for which a function publishes has no slot. */
	t->client = set->function ? 0 : args->client;
	t->slot = set->function ? 0 : args->slot;
	s = slot_of(t);
	t->poll_seq = s ? *(volatile u32 *)&s->poll_seq : 0;
	t->is_new = !set->function;
	t->resumes = 0;
	contract_begin(t, now_ns);
	t->member.due_ns = now_ns;
	t->member.run_due_ns = now_ns;
	t->member.priority = PRIORITY_NONE;
	t->member.key = 0;
	t->member.served = domain_in(set, t->place)->served_least;
	t->member.debt_vtime = domain_clock(domain_in(set, t->place)) + t->member.debt_lead;
	t->member.debt_credit = 0;
	t->member.turn_ns = now_ns;
	if (set->function && args->role < ROLES_MAX)
		role_attach(set->function, args->role, t, args->client, args->slot, now_ns);
	if (set->reservation && !t->reservation) {
		share_reservation(t, set->reservation);
		t->by_domain = 1;
	}
	task_move(t, t->reservation ? &t->reservation->set : t->home, set, t->place, 0);
	if (s) {
		s->yield_by_ns = NEVER_NS;
		s->standing = CONSORT_MEMBER;
	}
	__sync_fetch_and_add(&set->nr_members, 1);
}

call_fn consort_join(struct consort_join_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set = find_domain_set(args->domain);
	struct held_task h;

	args->error = ENOENT;
	if (!set)
		return 0;
	args->error = EINVAL;
	if (args->client >= CLIENTS_MAX || args->slot >= CONSORT_SLOTS ||
	    (set->function && !is_role(set->function, args->role)))
		return 0;
	args->error = EBUSY;
	if (set->function && is_played(set->function, args->role))
		return 0;
	args->error = task_hold(&h, args->tid, args->start_ticks, false);
	if (args->error)
		return 0;
	if (h.t->set)
		args->error = EEXIST;
	else
		member_join(h.t, set, args, bpf_ktime_get_ns());
	task_let_go(&h);
	return 0;
}

/* A reservation that it had as a member it leaves, too. */
static inline void leave(struct task __arena *t, const struct task_struct *p)
{
	if (!t->by_domain) {
		member_leave(t, t->home);
		return;
	}
	member_leave(t, t->away ? root_set : cgroup_of(p));
	reservation_forget(t);
}

call_fn consort_leave(struct consort_leave_args *args)
{
	USES_ARENA();
	struct held_task h;

	args->error = task_hold(&h, args->tid, 0, true);
	if (args->error)
		return 0;
	if (h.t->set && h.t->client == args->client)
		leave(h.t, h.p);
	else
		args->error = ENOENT;
	task_let_go(&h);
	return 0;
}

#endif
