/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The trace: what a scheduler does and what programs say of themselves, on one clock.
 *
 * There is one record. The kernel's ring, the rings of programs and trace files hold it; the simulator writes it, too.
 * A file is a header, and records behind it in no order: readers sort by time. All times are nanoseconds of
 * CLOCK_MONOTONIC, or of the simulator's virtual time. All integers are in the machine's byte order.
 */
#ifndef CONSORT_TRACE_H
#define CONSORT_TRACE_H

#ifndef CONSORT_ABI_NO_LINUX_TYPES
#include <linux/types.h>
#endif

#define CONSORT_TRACE_MAGIC 0x43525443u /* "CTRC" */
#define CONSORT_TRACE_VERSION 1u
#define CONSORT_TRACE_RECORD_BYTES 64
#define CONSORT_TRACE_COMMAND_BYTES 16
#define CONSORT_TRACE_LABEL_BYTES 32
#define CONSORT_TRACE_HEADER_BYTES 128
#define CONSORT_TRACE_SYSTEM_BYTES 96
#define CONSORT_TRACE_NO_CPU 0xffffu

enum consort_trace_kind {
	CONSORT_TRACE_SWITCH = 1, /* a CPU gives itself to another thread */
	CONSORT_TRACE_WAKE = 2, /* a thread wants a CPU from now on */
	CONSORT_TRACE_DEMOTE = 3, /* a member broke the contract of its domain */
	CONSORT_TRACE_DUE = 4, /* a program begins a due event */
	CONSORT_TRACE_EVENT = 5, /* what a program says, by family and name */
	CONSORT_TRACE_LOST = 6, /* records that are missing */
	CONSORT_TRACE_END = 7, /* the last record of a whole file */
	CONSORT_TRACE_INTERVAL = 8, /* what became of an interval of a plan, or of another function */
	CONSORT_TRACE_ROLE = 9, /* how a role of a group is called */
};

/* How a thread left its CPU. */
enum consort_trace_left {
	CONSORT_TRACE_PREEMPTED = 0, /* it could go on; it may have yielded, where nobody can tell */
	CONSORT_TRACE_YIELDED = 1,
	CONSORT_TRACE_SLEPT = 2,
	CONSORT_TRACE_ENDED = 3,
};

/* Why a thread got its CPU. */
enum consort_trace_reason {
	CONSORT_TRACE_IDLE = 0, /* nobody wanted it */
	CONSORT_TRACE_DEADLINE = 1, /* it has a deadline of the kernel's (SCHED_DEADLINE) */
	CONSORT_TRACE_REAL_TIME = 2, /* SCHED_FIFO, SCHED_RR */
	CONSORT_TRACE_STOCK = 3, /* the stock scheduler, or another one, let it run */
	CONSORT_TRACE_SLICE = 4, /* its turn, by its share */
	CONSORT_TRACE_DUE_EVENT = 5, /* its due event had expired */
	CONSORT_TRACE_BORROWED = 6, /* the same, ahead of its domain's share */
	CONSORT_TRACE_RESERVED = 7, /* its reservation's turn */
	CONSORT_TRACE_INTERRUPT = 8, /* interrupts, whoever ran then: in reports, not in records */
};

/* What became of an interval in which a group's function has a member run. */
enum consort_trace_became {
	CONSORT_TRACE_BEGAN = 0, /* its thread has the CPU in it, for the first time */
	CONSORT_TRACE_KEPT = 1, /* it is over, and its thread has run in it, or was done before */
	CONSORT_TRACE_MISSED = 2, /* it is over, and its thread has not run */
	CONSORT_TRACE_PASSED = 3, /* some were missed after that one, before anybody looked */
	CONSORT_TRACE_DROPPED = 4, /* another one took its place before its thread had run */
};

/* Why one was missed. */
enum consort_trace_miss {
	CONSORT_TRACE_VACANT = 0, /* there was no thread of that name */
	CONSORT_TRACE_ASLEEP = 1, /* its thread did not want the CPU, or another class had it */
	CONSORT_TRACE_OUTSIDE = 2, /* its thread had no seat in the account that it is in */
	CONSORT_TRACE_SHARE = 3, /* its group was as far ahead of its share as it may be */
	CONSORT_TRACE_OTHERS = 4, /* other due events had the CPU */
};

/* Where there was no room for records. */
enum consort_trace_source {
	CONSORT_TRACE_OF_SCHEDULER = 0, /* the kernel's ring was full */
	CONSORT_TRACE_OF_PROGRAMS = 1, /* a program's ring was full, or it had none */
	CONSORT_TRACE_OF_FILE = 2, /* the file has grown as long as it may */
};

struct consort_trace_record {
	__u64 at_ns;
	__u16 kind; /* enum consort_trace_kind */
	__u16 cpu; /* SWITCH: which one; WAKE: on which the thread was put; or CONSORT_TRACE_NO_CPU */
	__s32 tid; /* the thread that it is about: of SWITCH the next one, 0 is none; of LOST and ROLE none */
	__s32 pid; /* its process; 0: see other records of the thread */
	__u32 reserved;
	union {
		struct {
			__s32 prev_tid;
			__s32 prev_pid;
			__u16 left; /* enum consort_trace_left, of the previous one */
			__u16 reason; /* enum consort_trace_reason, of the next one */
			__s32 priority; /* the kernel's, of the next one: 120 is nice 0 */
			__u64 interrupted_ns; /* what interrupts took of the previous one's run */
			char command[CONSORT_TRACE_COMMAND_BYTES]; /* the next one's; 0-terminated if it is shorter */
		} switched;
		struct {
			__s32 by_tid; /* the thread that ran where it was woken: often the one that woke it */
			__u32 is_new; /* 1: it has just been made */
			char command[CONSORT_TRACE_COMMAND_BYTES];
		} woken;
		struct {
			__u32 why; /* enum consort_why */
			__u32 late_us; /* by how much it polled too late */
		} demoted;
		struct {
			__u64 due_ns;
		} due;
		struct {
			__s64 value;
			char label[CONSORT_TRACE_LABEL_BYTES]; /* "family/name"; 0-terminated if it is shorter */
		} event;
		struct {
			__u64 count;
			__u32 source; /* enum consort_trace_source */
		} lost;
		struct {
			__u64 from_ns; /* PASSED: 0, as the next one */
			__u64 until_ns;
			__u64 late_ns; /* BEGAN: from its beginning, or its thread's wake-up in it, until that ran */
			__u32 group; /* a number of the scheduler's */
			__u32 count; /* PASSED: how many; else 1 */
			__u16 role; /* which of the group's */
			__u16 became; /* enum consort_trace_became */
			__u16 why; /* MISSED, PASSED: enum consort_trace_miss */
		} interval;
		struct {
			__u32 group;
			__u32 role;
			char label[CONSORT_TRACE_LABEL_BYTES]; /* "group/member"; 0-terminated if it is shorter */
		} role;
		char bytes[40];
	};
};

/* The first bytes of a file. */
struct consort_trace_header {
	__u32 magic;
	__u16 version;
	__u16 record_bytes;
	__u32 is_simulated;
	__u32 reserved;
	__u64 start_ns;
	__u64 start_realtime_ns; /* the same moment on CLOCK_REALTIME; simulated: 0 */
	char system[CONSORT_TRACE_SYSTEM_BYTES]; /* what was traced, such as "Linux 7.2.13" */
};

/* ---- rings of programs ---- */

/*
 * A recorder shares one memory file with all programs that it starts: CONSORT_TRACE_FD in their environment is the file
 * descriptor. Each thread that has something to say takes a ring of its own, so that nobody waits for anybody. The
 * recorder trusts nothing in it.
 */
#define CONSORT_TRACE_VARIABLE "CONSORT_TRACE_FD"
#define CONSORT_TRACE_RINGS 255
#define CONSORT_TRACE_RING_RECORDS 4096 /* a power of two */

struct consort_trace_ring {
	__u32 owner; /* the thread that writes; 0: nobody */
	__s32 owner_pid;
	__u64 owner_namespace; /* in which these numbers are so: the inode of its /proc/self/ns/pid; 0: it is not known */
	__u64 head; /* records written so far; by the thread */
	__u64 tail; /* of these, those that were taken; by the recorder */
	__u64 lost; /* for which there was no room; by the thread */
	__u64 reserved[3];
};

struct consort_trace_area {
	__u32 magic;
	__u32 version;
	__u32 is_recording; /* 0: nobody reads any more */
	__u32 reserved;
	__u64 lost; /* of threads that found no ring */
	__u64 unused[5];
	struct consort_trace_ring rings[CONSORT_TRACE_RINGS];
	struct consort_trace_record records[CONSORT_TRACE_RINGS][CONSORT_TRACE_RING_RECORDS];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct consort_trace_record) == CONSORT_TRACE_RECORD_BYTES,
	       "records are what their name says");
_Static_assert(sizeof(struct consort_trace_header) == CONSORT_TRACE_HEADER_BYTES,
	       "records in a file are aligned");
_Static_assert(sizeof(struct consort_trace_ring) == 64, "a ring's head is one cache line");
#endif

#endif
