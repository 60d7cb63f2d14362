/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A decision function of your own: the one header that it includes, and all that it sees.
 *
 * A group whose file says `function = "user:NAME"` asks your function whose turn it is among its members. Define one of
 *
 *     long df_pick(struct df_group *g);                        the number of the member that goes first;
 *                                                              negative: no opinion
 *     unsigned long long df_key(struct df_group *g, unsigned int i);
 *                                                              the place of member i: the smallest goes first;
 *                                                              DF_NO_OPINION: after all that have a key
 *
 * It is asked when a member begins to wait, wakes, sleeps, or is compared, and at the latest after what it has written to
 * `ask_after_ns`. What it says holds until it is asked again. It decides when a member runs, never how much the group has:
 * among members that are due by a plan, or after whom they follow, due times come first. Members of which it says nothing,
 * or something wrong, have the order of the file.
 *
 * Rules, looked at before a function is loaded: one source file; no other functions but static inline ones, no global or
 * static variables, no constant tables, no arrays or structs on the stack, no addresses of local variables; no loop without
 * an end that can be seen: `for (unsigned int i = 0; i < DF_MEMBERS; i++) { if (i >= g->nr) break; ... }`. Reads and writes
 * wherever you point to stay within struct df_group. Division by 0 is 0.
 *
 * The struct is a copy, filled anew each time. Of what is written there ask_after_ns, memory and control are kept.
 */
#ifndef CONSORT_DF_H
#define CONSORT_DF_H

#define DF_MEMBERS 32
#define DF_VARIABLES 4
#define DF_MEMORY 8
#define DF_NEVER 0xffffffffffffffffULL
#define DF_NOBODY 0xffffffffu
#define DF_NO_OPINION 0xffffffffffffffffULL
/* A larger key, but for DF_NO_OPINION, is wrong. */
#define DF_KEY_MAX 0x3fffffffffffffffULL

/* df_member.flags */
#define DF_PLAYED 1u /* a thread has the name */
#define DF_WANTS 2u /* it wants the CPU, or has it */
#define DF_RUNS 4u /* it has it */

/* A member, by its number in the order of the file. All times are ns of CLOCK_MONOTONIC, all lengths ns. */
struct df_member {
	unsigned long long due_ns; /* from when on it is due by a plan or whom it follows; DF_NEVER */
	unsigned long long awake_ns; /* since when it has wanted the CPU; of one that sleeps: the last time */
	unsigned long long ran_ns; /* CPU time that threads have had as this member */
	unsigned long long period_ns; /* as in the file; 0: none */
	unsigned long long budget_ns;
	unsigned int flags;
	unsigned int weight; /* of its thread, by its nice value: 1024 is 0's */
	long long state[DF_VARIABLES]; /* what its thread publishes: any number, believe nothing */
	long long control[DF_VARIABLES]; /* what it is told: write it here */
};

struct df_group {
	unsigned int nr; /* members, at most DF_MEMBERS */
	unsigned int by; /* the number of the member that gives the CPU up or is compared; DF_NOBODY */
	unsigned long long now_ns;
	unsigned long long ask_after_ns; /* write it: to be asked again so much later; 0: at the next event */
	long long memory[DF_MEMORY]; /* what the function itself keeps: 0 at first, and kept when it is replaced */
	struct df_member member[DF_MEMBERS];
};

/* Yours is one of these. */
long df_pick(struct df_group *g);
unsigned long long df_key(struct df_group *g, unsigned int i);

#endif
