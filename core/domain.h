/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A cooperation domain and its members: what is known of them. decide/coop.h says which of them runs next, decide/order.h in which
 * order their best-effort events are served.
 */
#ifndef CORE_DOMAIN_H
#define CORE_DOMAIN_H

#include "fifo.h"
#include "live.h"
#include "node.h"
#include "owing.h"

#define PRIORITY_NONE 0xffffffffu

enum coop_order {
	ORDER_PROGRAM, /* as published: (priority, key) */
	ORDER_PROGRESS, /* fewest due events first, served or announced */
	ORDER_SERVICE, /* least CPU time first */
	ORDER_FUNCTION, /* as its function publishes: (priority, key), see function.h */
};

enum due_wait {
	WAITS_DUE, /* in the queues due, */
	WAITS_INDEBTED, /* indebted, */
	WAITS_PATIENT, /* and patient */
};

struct domain;
struct member;
struct role;
struct function;

/* In what a seat's flight is counted. */
#define FLIGHT_SHIFT 10

/* A domain's place in an account, see seat.h. */
struct seat {
	struct tree_node node; /* in the account; its weight is never 0: what was counted last */
	struct domain __arena *domain; /* NULL: it is a spare one */
	struct seat __arena *next; /* of the domain's, or of the spare ones */
	struct seat __arena *spares; /* that its other members brought */
	struct owing owing; /* its members that are asleep and ahead */
	u64 counted; /* weights of its active members */
	u64 left_ns; /* by how much it is ahead for members of other accounts, at most; while it has none, exactly */
	s64 given_ns; /* what it paid for members of other accounts, less what other seats paid for its own; SEAT_GIVES_NS at most */
	struct member __arena *first; /* of its members that wait, in the order in which they came */
	struct member __arena *last;
	u32 nr_members;
	u32 flight; /* what its members that run on several CPUs are about to have, in 2^FLIGHT_SHIFT ns */
};

struct domain {
	struct group group; /* of its members: those that wait by their best-effort events. Its node is in no group */
	struct seat __arena *seats; /* one in each account in which it has members */
	u32 nr_seats;
	struct group __arena *
		blocks; /* of the last look: in which group it is too far ahead to borrow; NULL: none */
	struct member __arena *next; /* of the last look: for which it may be to borrow */
	struct seat __arena *best; /* of the last look: the one that is least ahead */
	u64 may_borrow_at; /* that group's virtual time from which on it may */
	struct group __arena *
		blocked_in; /* in whose queue `upcoming` is, of domains that have borrowed enough; NULL: none's */
	struct heap due; /* waiting members that are due within PATIENCE_NS, by due time */
	struct fifo patient; /* the other waiting members, by the end of their patience */
	struct heap indebted; /* waiting members in due debt, by the virtual time at which they are out of it */
	struct heap asleep; /* members that sleep until their due time */
	struct heap repaying; /* members that sleep in due debt, by the virtual time at which it is repaid */
	u64 repaying_weight; /* of those in it */
	struct heap_link upcoming; /* in the place's queue of due times, or a group's of blocked domains, see place.h */
	u64 nr_blocked; /* how often it has borrowed enough */
	u64 served_least; /* as many due events as the member last chosen by progress has had; a new member begins with them */
	u64 turn_least; /* as late as that have turns begun, see decide/order.h */
	u64 idle_since_ns; /* when its last active member went to sleep */
	u8 order; /* enum coop_order */
	u8 preempt; /* members are preempted at due times, not asked to poll */
	u64 grace_ns; /* how late a member may poll, and how far it may run ahead on expired due events */
	struct function __arena *function; /* what publishes for its members; NULL: they do themselves */
};

/* What makes a task a member: embedded in the host's task. */
struct member {
	struct tree_node node;
	struct heap_link due; /* in one of the domain's queues due, patient, indebted, asleep */
	u64 due_ns; /* NEVER_NS if none */
	u64 awaits_ns; /* until when it waits, though it is due, for others' events to be over: see wake.h; 0: it does not */
	u64 run_due_ns; /* what it was when the run that is not charged yet began */
	u64 key;
	u32 priority; /* PRIORITY_NONE if it has no best-effort event */
	u8 asleep;
	u8 due_wait; /* enum due_wait: in which of the domain's queues it waits by its due event */
	u8 repaying; /* sleeps in the domain's queue of that name, by `node.ready`, which is for members that wait */
	u8 interrupted; /* it lost the CPU in the middle of an event */
	u64 debt_vtime; /* virtual time gained on expired due events, by the domain's clock; that when it woke at least */
	struct seat __arena *seat; /* its account's; NULL: it is in no domain */
	struct member __arena *next_own; /* that wait in its seat */
	struct member __arena *before_own;
	struct seat __arena *spare; /* what it gives to a domain that has no seat in its account, see seat.h */
	struct waiter waiter; /* among those that wait in its place, see live.h */
	u64 own_vtime; /* in its account, as if it were in no domain: see seat.h */
	u64 own_rest_vtime; /* where its account's minimum was when it went to sleep */
	struct heap_link owing; /* among those of its seat that are asleep and ahead, see owing.h */
	union {
		u64 debt_lead; /* in no domain: due debt that it took along when it left its domain, in virtual time */
		u64 debt_credit; /* in one: what its share may be until its next due event, in virtual time */
	};
	u64 service_lead; /* by how much it had had more than the least of its domain when it left it, in virtual time */
	u64 lead_ns; /* what it brings along from where it was, to be counted when it becomes active */
	s64 given_ns; /* what its seat had given, if it was the last one there */
	u64 served; /* due events that are over */
	u64 turn_ns; /* when the turn that it had last ended, see order.h, */
	u64 turn_vtime; /* and where its virtual time was then */
	u64 turn_from; /* where the next one begins */
	struct role __arena *role; /* that it plays, see role.h; NULL: none */
};

static __always_inline struct seat __arena *seat_of_node(struct tree_node __arena *n)
{
	return outer_of(n, struct seat, node);
}

/* The domain's own clock. */
static __always_inline u64 domain_clock(const struct domain __arena *d)
{
	return d->group.node.vtime;
}

/* What the clock goes by: active members, and those that sleep in due debt. */
static __always_inline u64 domain_clock_weight(const struct domain __arena *d)
{
	return d->group.weight_active + d->repaying_weight;
}

static __always_inline struct domain __arena *domain_of(struct group __arena *g)
{
	return outer_of(g, struct domain, group);
}

static __always_inline struct member __arena *member_of(struct tree_node __arena *n)
{
	return outer_of(n, struct member, node);
}

static __always_inline struct member __arena *member_of_due(struct heap_link __arena *l)
{
	return outer_of(l, struct member, due);
}

#endif
