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
 *          A host that chooses between places takes the one that has waited for longer first, whatever else they say.
 *          One that it moves to another place goes on waiting there.
 * Bound    A runnable task waits for LIVE_WAIT_NS and LIVE_PART slices for each that has waited for longer than it.
 * Source   000 section 2.3.3 has no such rule; the stock scheduler bounds waits by bounding lags.
 * Limits   One list a place: a task that is changed in weight, or comes to another group, begins to wait anew.
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
	u64 came_ns; /* since when it has waited in this place */
};

/* So many waiters are looked at from either end for the place of one that comes from elsewhere. */
#define LIVE_LOOKS 16

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
	w->came_ns = now_ns;
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

/* The first of the list that has waited for less, of those within reach; NULL: none has. */
static __always_inline struct waiter __arena *live_first_after(const struct waiters __arena *all,
							       u64 since_ns)
{
	struct waiter __arena *last = all->last, *after = NULL;
	u32 looks;

	for (looks = 0; looks < LIVE_LOOKS && last && can_loop; looks++) {
		if ((s64)(last->since_ns - since_ns) <= 0)
			return after;
		after = last;
		last = last->before;
	}
	after = all->first;
	for (looks = 0; looks < LIVE_LOOKS && after && can_loop; looks++) {
		if ((s64)(after->since_ns - since_ns) > 0)
			break;
		after = after->next;
	}
	return after;
}

/*
 * A waiter has come from another place, where it has waited since then. Where it belongs out of reach, in a long list, it is
 * taken for one that has waited as long as the one before which it comes.
 */
core_fn live_wait_on(struct waiters __arena *all in_arena, struct waiter __arena *w in_arena,
		     u64 since_ns)
{
	struct waiter __arena *next, *before;

	live_wait_no_more(all, w);
	next = live_first_after(all, since_ns);
	before = next ? next->before : all->last;
	if (before && (s64)(before->since_ns - since_ns) > 0)
		since_ns = before->since_ns;
	if (next && (s64)(since_ns - next->since_ns) > 0)
		since_ns = next->since_ns;
	w->since_ns = since_ns;
	w->before = before;
	w->next = next;
	if (before)
		before->next = w;
	else
		all->first = w;
	if (next)
		next->before = w;
	else
		all->last = w;
	return 0;
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
