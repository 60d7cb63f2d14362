/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The same as shim.c, of what domains are made of. */
#include "place.h"

/* ---- decide/coop.h ---- */

int core_member_due_counts(const struct member *m, const struct domain *d)
{
	return member_due_counts(m, d);
}

void core_member_best_key(const struct member *m, const struct domain *d, u64 *major, u64 *minor)
{
	member_best_key(m, d, major, minor);
}

u32 core_member_turn(const struct member *m)
{
	return member_turn(m);
}

void core_member_publish(struct member *m, const struct domain *d, u64 due_ns, u32 priority,
			 u64 key, u64 now_ns)
{
	member_publish(m, d, due_ns, priority, key, now_ns);
}

void core_seat_exchange(struct member *out, struct member *in, u64 now_ns)
{
	seat_exchange(out, in, now_ns);
}

void core_coop_charge(struct domain *d, struct member *m, u64 ns)
{
	coop_charge(d, m, ns);
}

void core_domain_sleep(struct domain *d, struct member *m)
{
	domain_sleep(d, m);
}

void core_domain_wake(struct domain *d, struct member *m)
{
	domain_wake(d, m);
}

void core_domain_charge_due(struct domain *d, struct member *m, u64 ran_ns, u64 now_ns)
{
	domain_charge_due(d, m, ran_ns, now_ns);
}

u64 core_domain_next_due_ns(const struct domain *d)
{
	return domain_next_due_ns(d);
}

/* ---- function.h, function/ ---- */

void core_role_advance(struct role *r, u64 now_ns)
{
	role_advance(r, now_ns);
}

int core_role_is_on(const struct role *r, u64 now_ns)
{
	return role_is_on(r, now_ns);
}

void core_function_start(struct function *f, u64 zero_ns, u64 now_ns)
{
	function_start(f, zero_ns, now_ns);
}

int core_function_tell(struct role *r, u32 submissions, u32 done, u32 triggers, u64 now_ns)
{
	return function_tell(r, submissions, done, triggers, now_ns);
}

int core_user_give_key(struct role *r, u64 key)
{
	return user_give_key(r, key);
}

void core_user_shown(struct function *f)
{
	user_shown(f);
}

void core_user_answered(struct function *f, u64 took_ns, u64 again_ns, u64 now_ns)
{
	user_answered(f, took_ns, again_ns, now_ns);
}

u64 core_user_asks_at_ns(const struct function *f, u64 now_ns)
{
	return user_asks_at_ns(f, now_ns);
}

void core_function_publish(struct member *m, u64 now_ns)
{
	function_publish(m, now_ns);
}

void core_function_wake(struct member *m, u64 now_ns)
{
	function_wake(m, now_ns);
}

int core_function_sleep(struct member *m, u64 now_ns)
{
	return function_sleep(m, now_ns);
}

void core_function_begin(struct member *m, u64 began_ns, u64 now_ns)
{
	function_begin(m, began_ns, now_ns);
}

void core_function_ran(struct member *m, u64 total_ns, u64 began_ns, u64 now_ns)
{
	function_ran(m, total_ns, began_ns, now_ns);
}

u64 core_function_ends_ns(const struct member *m, u64 now_ns)
{
	return function_ends_ns(m, now_ns);
}

int core_pipeline_look(struct function *f, u64 now_ns)
{
	return pipeline_look(f, now_ns);
}

/* ---- seat.h ---- */

int core_domain_has_room(const struct domain *d, const struct group *account)
{
	return domain_has_room(d, account);
}

void core_seat_join(struct domain *d, struct member *m, struct group *account, u64 lead_ns)
{
	seat_join(d, m, account, lead_ns);
}

u64 core_member_lead_ns(const struct member *m)
{
	return member_lead_ns(m);
}

void core_seat_leave(struct member *m)
{
	seat_leave(m);
}

void core_seat_activate(struct member *m, u64 now_ns)
{
	seat_activate(m, now_ns);
}

void core_seat_deactivate(struct member *m, u64 now_ns)
{
	seat_deactivate(m, now_ns);
}

void core_seat_enqueue(struct member *m, u64 now_ns)
{
	seat_enqueue(m, now_ns);
}

void core_seat_dequeue(struct member *m)
{
	seat_dequeue(m);
}

void core_seat_charge(struct member *m, struct tree_node *pays, u64 ns)
{
	seat_charge(m, pays, ns);
}

struct seat *core_seat_of_node(struct tree_node *n)
{
	return seat_of_node(n);
}
