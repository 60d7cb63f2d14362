/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The binary layout shared by programs, the daemon and the scheduler.
 *
 * A program has one mapping, its *page*: a header and one *slot* for each of its threads. The scheduler
 * reads what a program published in a slot and writes its answer beside it. Nothing that a program writes
 * is trusted: the scheduler range-checks every field each time it reads it.
 *
 * A program asks the daemon for its page, and for everything that changes who is a member of what, over
 * a Unix SOCK_SEQPACKET socket: one message, one reply, in order.
 *
 * All times are absolute CLOCK_MONOTONIC nanoseconds. All integers are in the machine's byte order.
 */
#ifndef CONSORT_ABI_H
#define CONSORT_ABI_H

#ifndef CONSORT_ABI_NO_LINUX_TYPES
#include <linux/types.h>
#endif

#define CONSORT_ABI_MAGIC 0x54534e43u /* "CNST" */
#define CONSORT_ABI_VERSION 1u /* of the page */

/*
 * The greatest and the least version of messages. HELLO has the same layout in all: its `version` is the least one, `slot`
 * is the greatest that the caller speaks, `order` the least (both 0: it speaks 1), and the reply's `version` is what both
 * speak from then on; there is none: the reply is EPROTO. Every other message says which version it is of, and is answered
 * in that one.
 *
 *  1  A message is exactly as long as its structure. Fields that a request does not use are ignored.
 *  2  A message may be longer, if what the receiver does not know is all 0: structures grow at their ends. Requests: fields
 *     that a request does not use must be 0, and so must what is behind a name's end. Replies may end with anything.
 */
#define CONSORT_WIRE_VERSION 2u
#define CONSORT_WIRE_VERSION_LEAST 1u

#define CONSORT_SOCKET_PATH \
	"/run/consort/consort.sock" /* CONSORT_SOCKET in the environment overrides it */

/* No such event, no such time. */
#define CONSORT_NEVER (~0ULL)
/* A best-effort priority: 0 runs first. */
#define CONSORT_PRIORITY_MAX 0x7fffffffu
#define CONSORT_PRIORITY_NONE 0xffffffffu /* no best-effort event */
/* The farthest future a due time may lie in: one day. */
#define CONSORT_DUE_AHEAD_MAX_NS (24ULL * 3600 * 1000000000)
/* Bounds of what a member may declare as its domain's longest event. */
#define CONSORT_EVENT_MIN_NS 10000ULL
#define CONSORT_EVENT_MAX_NS 2000000ULL

#define CONSORT_PAGE_BYTES 4096
#define CONSORT_SLOT_BYTES 64
#define CONSORT_SLOTS 63 /* threads of one program that may be members at a time */
#define CONSORT_VARIABLES_BYTES 128
#define CONSORT_MAPPING_BYTES 12288
#define CONSORT_VARIABLES 4 /* state variables of a member, and control variables */
#define CONSORT_ROLES 32 /* members of a group whose decision function is neither coop nor fair */
#define CONSORT_NAME_MAX 63 /* bytes of a domain's name, without the final 0 */

/* consort_slot.intent: what the thread is about to do; read when it gives the CPU up. */
enum consort_intent {
	CONSORT_RUNNING = 0, /* outside poll: giving the CPU up now is against the contract */
	CONSORT_YIELDING =
		1, /* inside poll, wants the CPU again at once (it has best-effort events) */
	CONSORT_SLEEPING =
		2, /* inside poll, sleeps until due_ns or until a file descriptor is ready */
};

/* consort_slot.standing: how the scheduler regards the thread. */
enum consort_standing {
	CONSORT_OUTSIDE = 0, /* not a member of a domain */
	CONSORT_MEMBER = 1,
	CONSORT_DEMOTED = 2, /* broke the contract: best effort until its next timely poll */
};

/* consort_slot.why: what the thread did when it was last demoted. */
enum consort_why {
	CONSORT_WHY_NEVER = 0, /* it never was */
	CONSORT_WHY_POLLED_LATE = 1, /* it ran beyond its yield-by time and the grace */
	CONSORT_WHY_SLEPT = 2, /* it slept outside of poll */
};

#define CONSORT_WHY_BITS 4
#define CONSORT_WHY_US_MAX ((1u << (32 - CONSORT_WHY_BITS)) - 1)

/*
 * One thread's slot.
 *
 *   0        8        16       24       32       40       48       56       64
 *   | due    | key    |prio|seq|int|why | yieldby|o_due   | o_key  |o_pr|std |
 *   '------- written by the program ----'-------- written by the scheduler --'
 *                                  why, too, is the scheduler's
 */
struct consort_slot {
	__u64 due_ns; /* earliest due event, CONSORT_NEVER if none */
	__u64 key; /* orders best-effort events of equal priority: smaller first */
	__u32 priority; /* of the most important best-effort event, CONSORT_PRIORITY_NONE if none */
	__u32 poll_seq; /* incremented by each poll that enters the kernel, after the fields above */
	__u32 intent; /* enum consort_intent */
	__u32 why; /* the scheduler: enum consort_why of the last demotion; above CONSORT_WHY_BITS by how many us */

	__u64 yield_by_ns; /* poll again by this time; CONSORT_NEVER: whenever */
	__u64 other_due_ns; /* earliest due event of the domain's other members */
	__u64 other_key; /* most important best-effort event of the others that wait for the CPU */
	__u32 other_priority;
	__u32 standing; /* enum consort_standing */
};

struct consort_page_header {
	__u32 magic;
	__u32 version;
	__u32 attached; /* 1 while the scheduler runs; the scheduler clears it when it goes */
	__u32 bytes; /* of the whole mapping, this page included; 0: there is nothing behind it */
	__u32 reserved[12];
};

struct consort_page {
	struct consort_page_header header;
	struct consort_slot slots[CONSORT_SLOTS];
};

/*
 * What the thread of a slot and its group's decision function tell each other: behind the page, one for each slot. Each
 * word is written by one side only, and whole: a read is never torn. The two sides' words are on lines of their own.
 *
 * The scheduler looks when the thread gives the CPU up. Where it must look at once, call sched_yield after the change.
 */
struct consort_variables {
	/* Written by the program. */
	__s64 state[CONSORT_VARIABLES]; /* what they mean, the group's function or its file says */
	__u32 submissions; /* odd: about to submit to the server that follows; even: it has done so */
	__u32 done; /* items, such as frames, that the thread has finished */
	__u32 triggers; /* each change starts the group's plans anew */
	__u32 reserved[5];
	/* Written by the scheduler. */
	__s64 control[CONSORT_VARIABLES];
	__u32 unused[8];
};

/* A program's whole mapping. */
struct consort_mapping {
	struct consort_page page;
	struct consort_variables variables[CONSORT_SLOTS];
	__u32 reserved[32];
};

#ifndef __cplusplus /* which spells assertions in another way; one compiler's word is enough */
_Static_assert(sizeof(struct consort_slot) == CONSORT_SLOT_BYTES, "a slot is one cache line");
_Static_assert(sizeof(struct consort_page) == CONSORT_PAGE_BYTES, "a program's page is one page");
_Static_assert(sizeof(struct consort_variables) == CONSORT_VARIABLES_BYTES, "two cache lines");
_Static_assert(sizeof(struct consort_mapping) == CONSORT_MAPPING_BYTES, "whole pages");
#endif

/* ---- messages ---- */

enum consort_request_type {
	CONSORT_HELLO = 1, /* gives the page's file descriptor (SCM_RIGHTS); once per connection */
	CONSORT_JOIN = 2,
	CONSORT_LEAVE = 3,
	CONSORT_CONTROL = 4, /* followed by JSON text: what the consort command says */
	/* These need no page and no HELLO. */
	CONSORT_RESERVE = 5, /* a rate for a process or thread, or another one */
	CONSORT_RELEASE = 6,
	CONSORT_LEND = 7, /* a part of the caller's reservation */
	CONSORT_RECOLLECT = 8,
	CONSORT_USAGE = 9, /* answered by struct consort_usage_reply, unless refused */
	CONSORT_ANNOUNCE =
		10, /* what a thread is called in group files; needs HELLO, ends with LEAVE */
};

enum consort_reserve_flags {
	CONSORT_RESERVE_THREAD =
		1 << 0, /* tid is meant as a thread, even if it is a process' first */
};

/* Rates on the wire: millionths of one CPU. */
#define CONSORT_RATE_ONE_CPU 1000000u

/* How a domain orders its members' best-effort events. */
enum consort_order {
	CONSORT_ORDER_PROGRAM = 0, /* (priority, key) as published */
	CONSORT_ORDER_PROGRESS = 1, /* fewest due events first: counted by the scheduler */
	CONSORT_ORDER_SERVICE = 2, /* least CPU time received first: measured by the scheduler */
};

/* Who decides which of a group's members runs next. */
enum consort_function {
	CONSORT_FUNCTION_COOP = 0, /* its members, by what they publish: a cooperation domain */
	CONSORT_FUNCTION_FAIR = 1, /* least CPU time first, by weight */
	CONSORT_FUNCTION_PERIOD = 2, /* whose period ends first */
	CONSORT_FUNCTION_PLAN = 3, /* at its interval's start; else in the order of the members */
	CONSORT_FUNCTION_PIPELINE = 4, /* stages, by the levels of the queues between them */
	CONSORT_FUNCTION_FOLLOW =
		5, /* a server right after its client; else in the order of the members */
	CONSORT_FUNCTION_USER = 6, /* a function of the user's own: consort_df.h */
};

enum consort_join_flags {
	CONSORT_JOIN_PREEMPT =
		1 << 0, /* preempt members at due times instead of asking them to poll */
};

/*
 * Options belong to the domain and are taken from the member that creates it; a later member that names
 * other ones is refused with EINVAL. event_ns == 0 leaves the choice to the scheduler.
 */
struct consort_request {
	__u32 magic;
	__u16 version;
	__u16 type; /* enum consort_request_type */
	__s32 tid; /* JOIN, LEAVE, ANNOUNCE: the thread, as the caller sees it; 0 is the caller's only thread.
		    * RESERVE, RELEASE, USAGE: a process or thread, 0 is the caller's process.
		    * LEND, RECOLLECT: the receiver; the lender is the caller's process */
	__u32 slot; /* JOIN, LEAVE, ANNOUNCE: index into consort_page.slots */
	__u64 event_ns; /* JOIN: the longest event that a member runs; sets the domain's grace.
			 * RESERVE: the period */
	__u32 order; /* JOIN: enum consort_order. RESERVE, LEND: a rate. RECOLLECT: a rate, 0 is all */
	__u32 flags; /* JOIN: enum consort_join_flags. RESERVE, RELEASE, USAGE: enum consort_reserve_flags */
	char domain[CONSORT_NAME_MAX + 1]; /* JOIN: 0-terminated; empty: a private domain.
					    * RESERVE: the class. ANNOUNCE: the thread's name */
};

#define CONSORT_TEXT_MAX 192

struct consort_reply {
	__u32 magic;
	__u16 version;
	__u16 type; /* of the request */
	__s32 error; /* 0 or a positive errno */
	__u32 client; /* HELLO: this program's number, for messages and traces. RESERVE: the reservation's */
	char text[CONSORT_TEXT_MAX]; /* 0-terminated: what was wrong, what was expected, what to do */
};

#define CONSORT_RATE_UNKNOWN 0xffffffffu /* before there is anything to tell */

/* What a reservation asked for, has, and uses. Rates are millionths of one CPU. */
struct consort_usage_reply {
	struct consort_reply reply;
	__u32 asked; /* the nominal rate */
	__u32 lent; /* to others, now */
	__u32 held; /* lent to it */
	__u32 given; /* the effective rate: credits are counted */
	__u32 used[3]; /* over the last second, ten seconds and minute; or CONSORT_RATE_UNKNOWN */
	__u32 suggested; /* the nominal rate that would suit its recent use; or CONSORT_RATE_UNKNOWN */
	__u32 late_s; /* of the last sixty seconds, those in which it used all that it was given */
	__u32 threads; /* that share it now */
};

#endif
