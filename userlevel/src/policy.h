/* SPDX-License-Identifier: MIT */
/*
 * The policy as the user-level host calls it: a domain is made of plain numbers, asked, and written back as numbers.
 *
 * What members share is only these numbers. Queues, with their pointers, are made anew for each decision, in the memory of
 * the program that decides: another program can make the numbers wrong, and no pointer.
 */
#ifndef CONSORT_USERLEVEL_POLICY_H
#define CONSORT_USERLEVEL_POLICY_H

#include "decide/coop.h"

enum ul_state { UL_NOWHERE, UL_RUNNING, UL_WAITING, UL_ASLEEP };

/* What is kept of a member between two decisions; each field is that of struct member. */
struct ul_entry {
	u64 due_ns;
	u64 key;
	u64 since_ns; /* since when it has waited */
	u64 vtime;
	u64 debt_vtime;
	u64 served;
	u64 turn_ns;
	u64 turn_vtime;
	u64 turn_from;
	u64 run_due_ns;
	u32 priority;
	u32 weight; /* 1 to 2^31 */
	u32 state; /* enum ul_state */
	u32 reserved;
};

/* The same of a domain. */
struct ul_domain {
	u64 clock;
	u64 vmin;
	u64 served_least;
	u64 turn_least;
	u64 idle_since_ns;
	u64 grace_ns;
	u32 order; /* enum coop_order */
	u32 reserved;
};

/* What a running member is told. */
struct ul_told {
	u64 yield_by_ns;
	u64 other_due_ns;
	u64 other_key;
	u32 other_priority;
	u32 reserved;
};

#endif
