/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * User: a function that a program brought along says whose turn it is.
 *
 * Problem  No list of built-in functions has the one that a program needs.
 * Rule     The host asks the function when a member begins to wait, wakes, sleeps or is compared, and at the latest when that
 *          wished to be asked again. It answers with a key for each role, the smallest of which goes first, or with the
 *          role that goes first. What it says is published as any function's, and holds until it answers again. A role
 *          of which it says nothing, or something wrong, has the built-in choice: the order of the file, after those that
 *          have a key. A function that is missing, does not answer, or was slow too often has said nothing of anybody. The
 *          time that it takes is its group's: the host charges it to whichever member runs next.
 * Bound    That of function.h: it decides when among members that are not due, never how much.
 * Source   003 section 3.2.3 (scheduling decision functions in the kernel); sandbox and corrections are ours.
 * Limits   One that takes long delays the next task on its CPU by as much, until it is put aside; one that is slow less often
 *          than once in USER_SLOW_COUNTS answers never is. Members that run on other CPUs are compared with a new answer when
 *          their slices end.
 */
#ifndef CORE_FUNCTION_USER_H
#define CORE_FUNCTION_USER_H

#include "../role.h"

/* Keys are below; from here on are the places of those that have none. */
#define USER_KEYLESS (1ULL << 62)
#define USER_NO_KEY NEVER_NS

/*
 * An answer that took longer is slow; after so many in a row the function is not asked any more. Each of them is forgotten after
 * USER_SLOW_COUNTS that were not: one that is slow more often than that comes to as much in the end.
 */
#define USER_SLOW_NS 200000ULL
#define USER_SLOW_MAX 16
#define USER_SLOW_COUNTS 8

static __always_inline u64 user_key(const struct role __arena *r)
{
	return r->key < USER_KEYLESS ? r->key : USER_KEYLESS + r->number;
}

/* The function has given the role a key, or USER_NO_KEY. Returns whether that was right. */
static __always_inline int user_give_key(struct role __arena *r, u64 key)
{
	r->key = key < USER_KEYLESS ? key : USER_NO_KEY;
	return key < USER_KEYLESS || key == USER_NO_KEY;
}

/* The function is about to be asked, and knows all that has happened until now. */
static __always_inline void user_shown(struct function __arena *f)
{
	f->is_stale = 0;
}

/* The answer has come: whether it took too long, and when there is to be another one at the latest. */
static __always_inline void user_answered(struct function __arena *f, u64 took_ns, u64 again_ns,
					  u64 now_ns)
{
	f->ask_at_ns = again_ns && again_ns < NEVER_NS - now_ns ? now_ns + again_ns : NEVER_NS;
	if (took_ns > f->took_max_ns)
		f->took_max_ns = took_ns;
	if (took_ns <= USER_SLOW_NS) {
		f->slowness -= !!f->slowness;
		return;
	}
	f->slow++;
	f->slowness += USER_SLOW_COUNTS;
	if (f->slowness >= USER_SLOW_MAX * USER_SLOW_COUNTS)
		f->is_off = 1;
}

/* The function is another one, or is to be believed again. */
static __always_inline void user_begin(struct function __arena *f, u32 user)
{
	f->user = user;
	f->is_off = 0;
	f->slowness = 0;
}

/* When a member that runs is to be compared because the function wants to be asked. */
static __always_inline u64 user_asks_at_ns(const struct function __arena *f, u64 now_ns)
{
	if (f->is_off)
		return NEVER_NS;
	return f->is_stale ? now_ns : f->ask_at_ns;
}

#endif
