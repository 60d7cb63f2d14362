/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Liveness: the longest waiter is looked at.
 *
 * Problem  By weight alone, one of a weight of 1 beside many of 10000 waits for minutes; the kernel takes half a minute for a
 *          stall, and ejects the scheduler.
 * Rule     The waiting tasks of a place are also in a list, by when they began to wait. One that has waited for
 *          LIVE_WAIT_NS runs next, for a slice, whatever virtual times say, and is charged for it as for any run. Of
 *          every LIVE_PART slices one at most is given away like that. Its lead is forgotten beforehand: a task that gets a
 *          slice each time that it must would else be ahead for ever.
 * Bound    A runnable task waits for LIVE_WAIT_NS and LIVE_PART slices for each that has waited for longer than it.
 * Source   000 section 2.3.3 has no such rule; the stock scheduler bounds waits by bounding lags.
 *          A host that chooses between places takes the one that has waited for longer first, whatever else they say.
 * Limits   One list a place: a task that is moved, or changed in weight, begins to wait anew.
 */
#ifndef CORE_LIVE_H
#define CORE_LIVE_H

#include "types.h"

#define LIVE_WAIT_NS 1500000000ULL
#define LIVE_PART 4

struct waiter {
	struct waiter __arena *before;
	struct waiter __arena *next;
	u64 since_ns;
};

struct waiters {
	struct waiter __arena *first;
	struct waiter __arena *last;
	u64 again_at_ns; /* when the rule may be used again */
	u64 busy_since_ns; /* since when somebody has waited, but for moments; kept by the host, as the next one */
	u64 busy_until_ns; /* while nobody waits: until when somebody has, or keeps others waiting */
};

/* Between two waiters who follow each other, the list is empty for less. */
#define QUIET_NS 1000000ULL

/* Whether nobody has waited for longer than a moment, where nobody waits now. */
static __always_inline int live_is_quiet(const struct waiters __arena *all, u64 now_ns)
{
	return (s64)(now_ns - all->busy_until_ns) > (s64)QUIET_NS;
}

static __always_inline void live_busy_until(struct waiters __arena *all, u64 until_ns)
{
	if ((s64)(until_ns - all->busy_until_ns) > 0)
		all->busy_until_ns = until_ns;
}

/* It is as if somebody waited from now until then. */
static __always_inline void live_keep_busy(struct waiters __arena *all, u64 now_ns, u64 until_ns)
{
	if (!all->first && live_is_quiet(all, now_ns))
		all->busy_since_ns = now_ns;
	live_busy_until(all, until_ns);
}

static __always_inline void live_wait(struct waiters __arena *all, struct waiter __arena *w,
				      u64 now_ns)
{
	struct waiter __arena *last = all->last;

	if (!last && live_is_quiet(all, now_ns))
		all->busy_since_ns = now_ns;
	w->before = last;
	w->next = NULL;
	w->since_ns = now_ns;
	all->last = w;
	if (last)
		last->next = w;
	else
		all->first = w;
}

static __always_inline void live_wait_no_more(struct waiters __arena *all, struct waiter __arena *w)
{
	struct waiter __arena *before = w->before, *next = w->next;

	if (before)
		before->next = next;
	else
		all->first = next;
	if (next)
		next->before = before;
	else
		all->last = before;
}

/* For how long, up to now, tasks have waited: what others had before that was not owed to anybody. */
static __always_inline u64 live_busy_ns(const struct waiters __arena *all, u64 now_ns)
{
	if (!all->first && live_is_quiet(all, now_ns))
		return 0;
	return now_ns - all->busy_since_ns;
}

/* The task that has waited for too long; NULL: none has, or another one was served just now. */
static __always_inline struct waiter __arena *live_overdue(const struct waiters __arena *all,
							   u64 now_ns)
{
	struct waiter __arena *first = all->first;

	if (!first || (s64)(now_ns - first->since_ns) < (s64)LIVE_WAIT_NS ||
	    now_ns < all->again_at_ns)
		return NULL;
	return first;
}

#endif
