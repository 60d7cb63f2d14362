/* SPDX-License-Identifier: GPL-2.0 */
/* What is recorded of a callback or a switch. */
#ifndef RECORD_H
#define RECORD_H

/* Seconds of a busy scenario. */
#define RECORDS_MAX (1 << 16)

enum what { select_cpu, enqueue, dispatch, quiescent, switched };

struct named {
	s32 pid;
	char comm[16];
};

struct record {
	u64 at_ns;
	u32 what;
	u32 prev_state; /* of a switch: 0: it could go on */
	struct named task;
	struct named prev;
};

#endif
