/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records callbacks of the scheduler, before they begin, and switches, in one order. Each callback is given to the
 * scheduler as an array of its arguments, which is all that these programs look at.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "record.h"

char LICENSE[] SEC("license") = "GPL";

/* For the loader: what was recorded. */
struct record records[RECORDS_MAX];
u64 nr_records;

static struct record *next(u32 what)
{
	u64 at = __sync_fetch_and_add(&nr_records, 1);
	struct record *r;

	if (at >= RECORDS_MAX)
		return NULL;
	r = &records[at];
	r->at_ns = bpf_ktime_get_ns();
	r->what = what;
	return r;
}

static void name(struct named *to, struct task_struct *p)
{
	to->pid = BPF_CORE_READ(p, pid);
	bpf_probe_read_kernel_str(to->comm, sizeof(to->comm), &p->comm);
}

/* A callback whose argument number `number` is the task that it is about. */
static int callback(u32 what, const u64 *arguments, u32 number)
{
	struct task_struct *p = NULL;
	struct record *r = next(what);

	if (!r)
		return 0;
	bpf_probe_read_kernel(&p, sizeof(p), &arguments[number]);
	if (p)
		name(&r->task, p);
	return 0;
}

#define CALLBACK(what, number)                                          \
	SEC("fentry")                                                   \
	int record_##what(u64 *context)                                 \
	{                                                               \
		return callback(what, (const u64 *)context[0], number); \
	}

CALLBACK(select_cpu, 0)
CALLBACK(enqueue, 0)
CALLBACK(dispatch, 1)
CALLBACK(quiescent, 0)

SEC("tp_btf/sched_switch")
int record_switch(u64 *context)
{
	struct task_struct *prev = (struct task_struct *)context[1];
	struct task_struct *to = (struct task_struct *)context[2];
	struct record *r = next(switched);

	if (!r)
		return 0;
	name(&r->task, to);
	name(&r->prev, prev);
	r->prev_state = context[3];
	return 0;
}
