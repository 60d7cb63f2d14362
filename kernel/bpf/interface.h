/* SPDX-License-Identifier: GPL-2.0 */
/* What the scheduler and its loader share: tunables, topology, counters, and the arguments of the daemon's calls. */
#ifndef CONSORT_INTERFACE_H
#define CONSORT_INTERFACE_H

#include "consort_df.h"

/* Powers of two. What there is one of for each CPU takes memory only for those of consort_topology.nr_cpus. */
#define CPUS_MAX 1024
#define SHARDS_MAX 128
/* Sets of tasks that may run on the same some of a shard's CPUs, so many of a shard at a time: see subsets.h. */
#define SUBSETS 4
/* A place is a run queue: one for each shard, one for each CPU's own (pinned) tasks, one for each subset of a shard's CPUs. */
#define PLACES_MAX (SHARDS_MAX + CPUS_MAX + SHARDS_MAX * SUBSETS)
#define CLIENTS_MAX 4096
#define DOMAINS_MAX 4096
#define GROUPS_MAX 16384
#define TASKS_MAX (1 << 20)
#define CLASSES_MAX 16
#define RESERVATIONS_MAX 16384
/* All of a place's CPUs, as the capacity of a class; one CPU, as a rate. */
#define CONSORT_RATE_ONE 1048576u
#define CONSORT_PERIOD_MAX_NS 10000000000ULL

/* Set by the loader before load (rodata). */
struct consort_topology {
	unsigned int nr_cpus; /* those that there is room for, from 0 without gaps: others that come have it loaded anew */
	unsigned int nr_shards;
	unsigned int nr_possible; /* CPUs that may ever come: so many may a task run on that may run everywhere */
	unsigned int nr_present; /* CPUs that were there when it was loaded: what classes divide */
	unsigned int cpu_mask; /* the least power of two that is no less than nr_cpus, minus one: so long are arrays by CPU */
	unsigned int shard_of[CPUS_MAX]; /* CPU -> last-level-cache domain */
};

/* May be changed at any time. */
struct consort_tunables {
	unsigned long long granularity_ns; /* every runnable task runs once within it */
	unsigned long long min_slice_ns;
	unsigned long long window_ns; /* how far a domain may borrow ahead for due events, at its rate */
	unsigned long long changes; /* how often they were changed; written last */
};

/* Per CPU; only ever counted up. */
struct consort_counters {
	unsigned long long switches; /* another task was chosen */
	unsigned long long kept; /* the running task was compared and went on */
	unsigned long long wakeups;
	unsigned long long preemptions; /* by a task that woke */
	unsigned long long polls; /* that entered the kernel */
	unsigned long long sleeps; /* polls that slept until their due time */
	unsigned long long due_choices; /* chosen because a due event expired */
	unsigned long long overruns; /* demoted: polled too late */
	unsigned long long blocks; /* demoted: slept outside poll */
	unsigned long long restorations;
	unsigned long long timers; /* one-shot timers that fired */
	unsigned long long timer_failures; /* that could not be started: the tick ended the slice */
	unsigned long long refused_due; /* due times out of range in a slot: taken as none */
	unsigned long long steals; /* tasks taken over from another shard, or another CPU's own place */
	unsigned long long lost; /* chosen, but gone before it could be dispatched */
	unsigned long long ends; /* members that ended without leaving */
	unsigned long long shared_cgroups; /* that found no room for a queue of their own */
	unsigned long long held; /* tasks that the limit of a cgroup kept from running, for a time */
};

/* Members that a record is kept of, at a time; its seconds; classes of tardiness, two for each octave from 1 us on. */
#define RECORDS_MAX 8192
#define RECORD_SECONDS 16
#define RECORD_BUCKETS 44

/* The due events of a member that were dispatched in one second of CLOCK_MONOTONIC. */
struct consort_second {
	unsigned int second; /* of the clock; an older one than the last RECORD_SECONDS is out of date */
	unsigned int events;
	unsigned long long late_ns; /* sum of their tardiness */
	unsigned long long late_max_ns;
	unsigned int buckets[RECORD_BUCKETS]; /* 0: less than 1024 ns; 1 + 2n: from 2^(10+n) ns; 2 + 2n: from 1.5 times that */
};

/* What is told of a member. Map records, by the client's number * 64 + the slot's. */
struct consort_record {
	unsigned long long due_ns; /* of the last one counted; 0: none yet */
	unsigned long long demotions; /* since it joined */
	unsigned long long why_late_ns; /* the last time: by how much it polled too late */
	unsigned int why; /* the last time: enum consort_why */
	unsigned int reserved;
	struct consort_second seconds[RECORD_SECONDS];
};

/* Why the scheduler let a task run. */
enum consort_reason {
	CONSORT_REASON_UNKNOWN, /* another scheduler chose */
	CONSORT_REASON_SLICE, /* its turn, by its share */
	CONSORT_REASON_DUE, /* its due event had expired */
	CONSORT_REASON_BORROWED, /* the same, ahead of its domain's share */
	CONSORT_REASON_RESERVED, /* its reservation's turn */
};

/* What a CPU was told to run last. */
struct consort_chosen {
	int pid;
	unsigned int reason; /* enum consort_reason */
};

/* The member that was demoted last on a CPU. */
struct consort_demoted {
	unsigned int count; /* of demotions on it so far */
	int pid;
	unsigned int why; /* enum consort_why */
	unsigned int late_us; /* by how much it polled too late */
};

/* What became of an interval of a role, or of several that were passed over. */
struct consort_became {
	unsigned long long at_ns; /* when that was found */
	unsigned long long from_ns; /* of those that were passed over: 0, as the next one */
	unsigned long long until_ns;
	unsigned long long late_ns; /* of one that begins: by how much its thread had the CPU too late */
	unsigned int group;
	unsigned int count;
	int pid; /* who plays the role; 0: nobody */
	unsigned char role;
	unsigned char became; /* enum interval_became of core/role.h */
	unsigned char why; /* of those that are missed: enum miss */
	unsigned char reserved;
};

/* A power of two: of all roles of a group what may be found at once. */
#define CONSORT_INTERVALS_TOLD 64

/* What was found last on a CPU. */
struct consort_told {
	unsigned long long count; /* so far */
	struct consort_became last[CONSORT_INTERVALS_TOLD];
};

/* An entry of the map .data.reasons, one for each CPU: what looks on reads it, too. */
struct consort_reasons {
	struct consort_chosen chosen;
	struct consort_demoted demoted;
	struct consort_told told;
};

/* The code with which the scheduler leaves when a CPU has come for which it has no room. */
#define CONSORT_EXIT_MORE_CPUS 1

enum consort_exit_state { CONSORT_EXIT_NONE, CONSORT_EXIT_DONE };

/* As much as the kernel writes if it is not told otherwise. */
#define CONSORT_DUMP_BYTES 32768

struct consort_exit_info {
	int state; /* enum consort_exit_state, written last */
	int kind; /* enum scx_exit_kind */
	long long exit_code;
	char reason[128];
	char msg[512];
	char dump[CONSORT_DUMP_BYTES]; /* what the kernel and the scheduler said of each CPU and task; empty without a fault */
};

/*
 * Arguments of what the daemon calls: consort_call, with one of these structs at the beginning of its own, consort_member_tell
 * and consort_keep_pages. `error` is 0 or a positive errno.
 */
struct consort_init_args {
	unsigned int error;
};

struct consort_domain_args {
	unsigned int domain; /* create: out; destroy: in */
	unsigned int order; /* enum consort_order */
	unsigned int flags; /* enum consort_join_flags */
	unsigned int error;
	unsigned long long event_ns; /* 0: CONSORT_EVENT_MAX_NS */
	unsigned int function; /* enum consort_function; but for coop, order, flags and event_ns mean nothing */
	unsigned int reservation; /* that its members share who have none themselves; 0: none */
	unsigned int user; /* which function of a user's own: number of df_programs */
	unsigned int reserved;
};

/* Functions of users' own that are loaded at a time. */
#define CONSORT_USER_FUNCTIONS 256

/* What a function of a user's own sees, and what is known of its answer: the map df_records, an entry a CPU. */
#define CONSORT_DF_BYTES 4096 /* it reaches so many, and a number's bytes beyond */
#define CONSORT_DF_ROOM (CONSORT_DF_BYTES + 16)
enum consort_df_answer { CONSORT_DF_NONE, CONSORT_DF_KEYS, CONSORT_DF_PICK };
struct consort_df_record {
	struct df_group group;
	unsigned long long keys[DF_MEMBERS]; /* or the pick, in the first */
	unsigned long long answer; /* enum consort_df_answer */
	unsigned char room[CONSORT_DF_ROOM - sizeof(struct df_group) -
			   (DF_MEMBERS + 1) * sizeof(unsigned long long)];
};

enum consort_user_operation {
	CONSORT_USER_STATUS,
	CONSORT_USER_SET, /* another function; one that is not asked any more is asked again */
};

struct consort_user_args {
	unsigned int operation; /* enum consort_user_operation */
	unsigned int domain;
	unsigned int user; /* SET: in; STATUS: out */
	unsigned int error;
	/* STATUS: out. Since the group was made */
	unsigned long long asked;
	unsigned long long corrected; /* answers of which something was wrong */
	unsigned long long missing;
	unsigned long long slow;
	unsigned long long took_max_ns;
	unsigned int is_off;
	unsigned int reserved;
};

/* A thread that plays no role: any in a group whose function is coop. */
#define CONSORT_NO_ROLE 0xffffffffu

struct consort_join_args { /* tell: the thread is in, the rest is out */
	int tid; /* in the initial pid namespace */
	unsigned int domain;
	unsigned int client; /* where it publishes. Of a group with a function: 0 if nowhere */
	unsigned int slot;
	unsigned int role;
	unsigned int error;
	unsigned long long start_ticks; /* when the thread started, as /proc tells; 0: not known */
};

/* Intervals of one plan, at most, and as many as are given at a time. A plan is no longer, nor begins later, than this. */
#define CONSORT_PLAN_INTERVALS 16384
#define CONSORT_PLAN_PART 256
#define CONSORT_PLAN_MAX_NS (30ULL * 24 * 3600 * 1000000000)
/* No interval is shorter. */
#define CONSORT_INTERVAL_MIN_NS 100000ULL

/* Relative to the plan's beginning. */
struct consort_interval {
	unsigned long long start_ns;
	unsigned long long end_ns;
};

/* Gives a role a plan, in parts that are handed over one after another: intervals in the variable plan_part. */
struct consort_plan_args {
	unsigned int domain;
	unsigned int role;
	unsigned int first; /* number of this part's first interval; 0 begins a new plan */
	unsigned int nr; /* intervals of this part */
	unsigned int all; /* of the plan; 0: the role is to have none. With the last part it takes effect */
	unsigned int error;
	unsigned long long repeat_ns; /* 0: it does not begin anew */
};

enum consort_role_operation {
	CONSORT_ROLE_TERMS, /* gives it terms, or others */
	CONSORT_ROLE_STATE, /* sets its state variables, as its thread would */
	CONSORT_ROLE_TELL, /* what its thread would tell: enum consort_tell */
	CONSORT_ROLE_STATUS, /* tells what it does */
	CONSORT_ROLE_BEGIN, /* all roles': when their plans begin, and how full the pipeline must be before */
};

/* What a thread's words tell, and a call in its stead. */
enum consort_tell {
	CONSORT_TELL_SUBMITTED = 1 << 0,
	CONSORT_TELL_DONE = 1 << 1,
};

/* consort_role_args.runs */
enum consort_role_runs {
	CONSORT_ROLE_AWAKE = 1 << 0, /* its thread wants the CPU, or has it */
	CONSORT_ROLE_RUNS = 1 << 1,
	CONSORT_ROLE_ON = 1 << 2, /* its interval is on */
	CONSORT_ROLE_OUTSIDE = 1 << 3, /* its thread has no seat */
	CONSORT_ROLE_BLOCKED = 1 << 4, /* its group is as far ahead of its share as it may be */
};

/* What becomes of a role's intervals in which its thread did not run: number of enum miss, see core/role.h. */
#define CONSORT_MISSES 5

struct consort_role_args {
	unsigned int operation; /* enum consort_role_operation */
	unsigned int domain;
	unsigned int role;
	unsigned int error;
	/* TERMS: in; STATUS: out */
	unsigned long long period_ns;
	unsigned long long budget_ns; /* 0: its weight's part of the period */
	unsigned long long follow_ns;
	unsigned int follows; /* a role, or CONSORT_NO_ROLE */
	unsigned int high; /* pipeline: the level up to which its output queue is filled; 0: it has none */
	unsigned int step; /* pipeline: by how much that is drained before it is filled again; 0: it is no stage */
	unsigned int tell; /* TELL: in; enum consort_tell */
	unsigned int bootstrap; /* BEGIN: in; STATUS: out. The level of the last stage's input from which on plans begin */
	unsigned int reserved;
	/* BEGIN: in; STATUS: out. The time at which relative times of plans are 0; CONSORT_NEVER: they stand still */
	unsigned long long zero_ns;
	/* STATE: in; STATUS: out */
	long long state[4];
	long long control[4];
	/* STATUS: out */
	int tid; /* of its thread; 0: nobody plays it */
	unsigned int runs; /* enum consort_role_runs */
	unsigned long long from_ns; /* its interval; CONSORT_NEVER: there is none to come */
	unsigned long long until_ns;
	unsigned long long kept;
	unsigned long long missed[CONSORT_MISSES];
	unsigned long long late_ns; /* sum, of those kept */
	unsigned long long late_max_ns;
	unsigned long long ran_ns; /* CPU time since its thread came */
};

struct consort_leave_args {
	int tid;
	unsigned int client; /* the task must be a member through this client's page */
	unsigned int error;
};

/* CPU time of the daemon's, spent on a thread's behalf. */
struct consort_bill_args {
	int tid;
	unsigned int error;
	unsigned long long start_ticks; /* as in consort_join_args */
	unsigned long long ns; /* at most a second */
};

/* What the daemon knows of a domain and the scheduler does not, and what it was made with. */
struct consort_domain_label {
	unsigned int uid;
	unsigned int order;
	unsigned int flags;
	unsigned int reserved;
	unsigned long long event_ns;
	char name[64]; /* ends with 0; empty: private */
};

/* Whose turn it is among the reservations of a class. */
enum consort_class_order {
	CONSORT_CLASS_PERIOD, /* whose period ends first, of those that are not ahead (core/decide/period.h) */
	CONSORT_CLASS_FRC, /* the smallest virtual time, as in 004's FRC (core/decide/fair.h) */
	CONSORT_CLASS_RC, /* whose period ends first, as in 004's RC (core/decide/rc.h) */
};

/* How the machine is divided: written by the loader, which then calls consort_classes. */
struct consort_class_table {
	unsigned int capacity[CLASSES_MAX]; /* parts of CONSORT_RATE_ONE; 0: there is no such class */
	unsigned int flexible; /* what is left for everybody else */
	unsigned long long shortest_period_ns; /* of all reservations; 0: there are none. Followed at once */
	unsigned char order[CLASSES_MAX]; /* enum consort_class_order */
};

struct consort_classes_args {
	unsigned int error;
};

struct consort_reservation_args {
	unsigned int reservation; /* create: out; else: in */
	unsigned int class;
	unsigned int rate; /* parts of CONSORT_RATE_ONE */
	int tid; /* add: in the initial pid namespace */
	unsigned int tasks; /* usage: out; how many share it */
	unsigned int error;
	unsigned long long ran_ns; /* usage: out; CPU time that they have had through it */
	unsigned long long cgroup; /* adopt: in */
	unsigned long long period_ns; /* create, change: in */
	unsigned long long start_ticks; /* add: when the thread started, as /proc tells; 0: not known */
};

enum consort_call {
	CONSORT_CALL_INIT_ARENA,
	CONSORT_CALL_DOMAIN_CREATE,
	CONSORT_CALL_DOMAIN_DESTROY,
	CONSORT_CALL_JOIN,
	CONSORT_CALL_LEAVE,
	CONSORT_CALL_LEAVE_OTHERS,
	CONSORT_CALL_BILL,
	CONSORT_CALL_PLAN,
	CONSORT_CALL_ROLE,
	CONSORT_CALL_USER,
	CONSORT_CALL_CLASSES,
	CONSORT_CALL_RESERVATION_CREATE,
	CONSORT_CALL_RESERVATION_CHANGE,
	CONSORT_CALL_RESERVATION_ADD,
	CONSORT_CALL_RESERVATION_ADOPT,
	CONSORT_CALL_RESERVATION_END,
	CONSORT_CALL_RESERVATION_USAGE,
};

#define CONSORT_CALL_BYTES 504
struct consort_call_args {
	unsigned char args[CONSORT_CALL_BYTES]; /* the call's own struct, and zeros */
	unsigned long long call; /* enum consort_call */
};

/*
 * consort_init_arena     consort_init_args    once, before attaching
 * consort_domain_create  consort_domain_args  ENOSPC: DOMAINS_MAX exist; ENOENT: no such reservation; EINVAL: no such
 *                                             function
 * consort_domain_destroy consort_domain_args  EBUSY: has members; ENOENT
 * consort_join           consort_join_args    ESRCH: no such task under this scheduler; EEXIST: is a member;
 *                                             ENOENT: no such domain; EINVAL: client, slot or role out of range;
 *                                             EBUSY: another thread plays the role
 * consort_leave          consort_leave_args   ESRCH; ENOENT: is not a member through this client. Of a group with a
 *                                             function: the client is 0
 * consort_bill           consort_bill_args    ESRCH; EINVAL: too much at once
 * consort_member_tell    consort_join_args    ESRCH; ENOENT: is no member
 * consort_leave_others   consort_init_args    ends the memberships of those whose client `connected` has no bit for
 * consort_keep_pages     consort_init_args    programs are not told when this scheduler goes: the next one is there
 * consort_plan           consort_plan_args    ENOENT: no such group with a function; EINVAL: role or part out of range,
 *                                             intervals too short, too late, not in order, or overlapping; ENOMEM
 * consort_role           consort_role_args    ENOENT; EINVAL: role or terms out of range
 * consort_user           consort_user_args    ENOENT: no such group with a function of a user's own; EINVAL: user out of
 *                                             range
 * consort_classes        consort_classes_args takes over class_table, or leaves all as it is: EBUSY: a class that
 *                                             shall go, or change its order, has reservations; EINVAL: flexible is 0
 * consort_reservation_*  consort_reservation_args  ENOENT: no such reservation, or class
 *   create                                    ENOSPC: RESERVATIONS_MAX exist; EINVAL: rate 0 or above CONSORT_RATE_ONE,
 *                                             period 0 or above CONSORT_PERIOD_MAX_NS
 *   change                                    another rate and period, maybe in another class: EINVAL as above
 *   add                                       ESRCH; EEXIST: has one
 *   adopt                                     all that is in a cgroup: ESRCH: no such cgroup with a queue of its own;
 *                                             EBUSY: it, or one that it is in, is reserved for already
 *   end                                       its threads are as all others again; EAGAIN: some are on the way, ask again;
 *                                             EBUSY: a domain's members share it
 *   usage
 *
 * Maps: clients (ARRAY_OF_MAPS of CLIENTS_MAX; inner: ARRAY, 1 entry of CONSORT_PAGE_BYTES, BPF_F_MMAPABLE).
 * df_programs (PROG_ARRAY of dispatch programs that answer for groups, by `user`), df_records (what they see).
 * Of the daemon, kept here for the next one: domain_labels (consort_domain_label by domain), reservation_labels (the
 * journal's number by reservation).
 * Globals: rodata `topology`, `use_timers`, `partial`; data `tunables`; bss `counters[CPUS_MAX]`, `exit_info`,
 * `class_table`, `connected`, `answering` (the client whose message the daemon is about to answer; 0: nobody's),
 * `plan_part[CONSORT_PLAN_PART]`.
 */

#endif
