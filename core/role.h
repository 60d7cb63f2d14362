/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Roles: what a group's decision function knows of its members.
 *
 * Problem  A function decides about threads that know nothing of it, and that come and go while their group stays.
 * Rule     A group that has a function of its own, instead of members that publish for themselves, has up to ROLES_MAX roles,
 *          by number in the order of its file. A role has terms, what its thread published last, and what became of
 *          its intervals. A thread that is bound plays a role until it leaves; one that nobody plays is vacant.
 * Bound    Everything here is of fixed size, and looked at in constant time for each role.
 * Source   003 sections 3.1.3 (names before threads), 3.2.1 (state and control variables).
 * Limits   A role changes under the lock of its thread's place, or while it is vacant. What others read meanwhile of it are
 *          whole words.
 */
#ifndef CORE_ROLE_H
#define CORE_ROLE_H

#include "types.h"

#define ROLES_MAX 32
#define ROLE_VARIABLES 4
#define USER_MEMORY 8

/* What of its own decides in a group. */
enum function_kind {
	FUNCTION_FAIR = 1,
	FUNCTION_PERIOD,
	FUNCTION_PLAN,
	FUNCTION_PIPELINE,
	FUNCTION_FOLLOW,
	FUNCTION_USER, /* of the user's own: function/user.h */
};

/* Why an interval passed in which a role's thread did not run. */
enum miss {
	MISS_VACANT, /* nobody played the role */
	MISS_ASLEEP, /* its thread did not want the CPU, or another scheduling class had it */
	MISS_OUTSIDE, /* its thread had no seat in the account that it is in */
	MISS_SHARE, /* its group was as far ahead of its share as it may be */
	MISS_OTHERS, /* other due events had the CPU */
	NR_MISSES,
};

/* What becomes of an interval. */
enum interval_became {
	INTERVAL_BEGAN, /* its thread has the CPU in it, for the first time */
	INTERVAL_KEPT, /* it is over, and its thread has run in it, or had nothing more to do */
	INTERVAL_MISSED, /* it is over, and its thread has not run */
	INTERVAL_PASSED, /* some were missed after that one, before anybody looked */
	INTERVAL_DROPPED, /* another one took its place while it was on, and its thread had not run yet */
};

struct function;
struct member;

/* An execution interval, relative to the plan's beginning. */
struct interval {
	u64 start_ns;
	u64 end_ns;
};

/* Intervals of one role, in order, none of which overlaps the next. */
struct plan {
	u64 repeat_ns; /* it begins anew after so long, not before its last interval ends; 0: it does not */
	u32 nr;
	u32 nr_all; /* that there is room for */
	struct interval at[];
};

struct role {
	struct function __arena *function;
	struct member __arena *member; /* of the thread that plays it; NULL: it is vacant */
	/* Terms. */
	struct plan __arena *plan; /* NULL: none */
	u64 period_ns; /* 0: none */
	u64 budget_ns; /* CPU time in a period; 0: its weight's part of it */
	u64 follow_ns; /* how long it runs at most after each submission */
	u32 follows; /* 1 + the number of the role whose submissions it serves; 0: nobody's */
	u32 number;
	u32 high; /* the level up to which the queue behind it is filled; 0: it has none */
	u32 step; /* by how much that is drained then; 0: it is no stage */
	u32 client; /* where its thread publishes, kept by the host; 0: nowhere */
	u32 slot;
	/* What its thread publishes. */
	s64 state[ROLE_VARIABLES];
	s64 control[ROLE_VARIABLES]; /* what it is told */
	u32 submissions;
	u32 done;
	u32 triggers;
	/* Its interval: the present one, or the next. */
	u8 has_run; /* in it */
	u8 is_done; /* with what it had to do in it */
	u64 awake_ns; /* since when its thread has wanted the CPU */
	/* By its function. */
	u64 ends_ns; /* period: when its present one does */
	s64 left_ns; /* of its budget in that */
	u64 submitted_ns; /* when its thread last submitted something to who follows it */
	u64 asked_ns; /* that of its leader which it has taken up last */
	u64 key; /* user: what its function gave it; USER_NO_KEY: nothing */
	u32 rank; /* pipeline: its place in the order of stages */
	u8 is_filled; /* its queue has come to its mark, and has not been drained by a step since */
	u64 stead_from_ns; /* the interval of another stage, in whose stead it runs */
	u64 stead_until_ns; /* 0: nobody's */
	u64 nr_blocked; /* how often its domain had borrowed enough before */
	u64 zero_ns; /* the function's when it was taken from the plan */
	u64 interval; /* which of the plan's it is, counted over all repetitions */
	u64 from_ns; /* NEVER_NS: there is none */
	u64 until_ns;
	/* What became of them. */
	u64 kept;
	u64 missed[NR_MISSES];
	u64 late_ns; /* from an interval's beginning until its thread ran, or when that woke, in sum */
	u64 late_max_ns;
	u64 total_ns; /* CPU time that its thread had had when it was last looked at, as the kernel counts it */
	u64 ran_ns; /* of what threads have had as this role */
};

struct function {
	u32 kind; /* enum function_kind */
	u32 nr_roles; /* the highest number of one that has terms, and 1 */
	u64 zero_ns; /* when the plans began, as far as they have not been set back or forth; NEVER_NS: they stand */
	struct plan __arena *staged; /* is being handed over; kept by the host, as the next one */
	u32 staged_for; /* the role's number */
	u32 bootstrap; /* pipeline: the level of the last stage's input from which on plans begin */
	u32 last_input; /* pipeline: the level of that */
	u8 is_booted; /* it has come to that */
	u64 begun_ns; /* when plans were to begin, or to go on */
	/* Of the user's own: function/user.h. */
	u32 user; /* which one it is, kept by the host */
	u8 is_stale; /* something has happened since its last answer */
	u8 is_off; /* it was slow too often: it is not asked */
	u32 slowness; /* of late: of slow answers, less others */
	u32 group; /* its group's number, kept by the host */
	u64 ask_at_ns; /* when it wants to be asked again; NEVER_NS: when something happens */
	s64 memory[USER_MEMORY]; /* what it keeps */
	u64 asked;
	u64 corrected; /* answers of which something was wrong */
	u64 missing; /* nobody answered */
	u64 slow;
	u64 took_max_ns;
	struct role roles[ROLES_MAX];
};

#endif
