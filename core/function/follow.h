/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Follow: a server runs right after its client has submitted something to it.
 *
 * Problem  What a program has done in time is seen late if the server that shows it, such as the display server, waits for its
 *          own turn.
 * Rule     From a submission on the server is due, until it has run for its interval, or has run and sleeps: it has done
 *          then what there was. A submission is told by the client (an even count); or the client sleeps in the middle of one
 *          (an odd count): it waits for the server. A client that tells nothing submits by waking the server.
 * Bound    That of a plan's interval (function/plan.h), from the submission on.
 * Source   003 section 3.3, Program 3.3, Step 3.
 * Limits   A submission that comes before the server is done with the one before prolongs its interval. What others than the
 *          client have the server do meanwhile is not told apart. A client that tells nothing, and that an interrupt that
 *          wakes the server happens to find on the CPU, is taken for the one who wakes it. One client; a server that
 *          wakes later than an interval after the submission is not due for it. A server that waits in another
 *          cache's queue than its client hears of it when it next wakes or is compared.
 */
#ifndef CORE_FUNCTION_FOLLOW_H
#define CORE_FUNCTION_FOLLOW_H

#include "../role.h"

/* The role that is followed; NULL: none is. */
static __always_inline struct role __arena *follow_leader(const struct role __arena *r)
{
	return r->follows ? &r->function->roles[(r->follows - 1) & (ROLES_MAX - 1)] : NULL;
}

/* Whether the leader has submitted something that the role has not taken up. */
static __always_inline int follow_is_asked(const struct role __arena *r)
{
	const struct role __arena *leader = follow_leader(r);

	return leader && leader->submitted_ns != r->asked_ns;
}

/* Takes it up: the interval begins then. */
static __always_inline void follow_take(struct role __arena *r)
{
	r->asked_ns = follow_leader(r)->submitted_ns;
	r->from_ns = r->asked_ns;
	r->until_ns = r->asked_ns + r->follow_ns;
	r->has_run = 0;
	r->is_done = 0;
}

#endif
