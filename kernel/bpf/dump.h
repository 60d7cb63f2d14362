/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel's dump says about the scheduler's own state: when it ejects the scheduler, or for SysRq-D
 * (tracepoint sched_ext:sched_ext_dump). Read without locks: a line may be of two moments.
 */
#ifndef CONSORT_DUMP_H
#define CONSORT_DUMP_H

#include "state.h"

SEC("struct_ops/consort_dump_cpu")
void BPF_PROG(consort_dump_cpu, struct scx_dump_ctx *dump, s32 cpu, bool idle)
{
	USES_ARENA();
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *s = shard_at(c->shard);
	struct task __arena *t = c->running;

	scx_dump("running=%d shard=%u own: runnable=%u vmin=%llu lead=%lld", t ? t->pid : 0,
		 c->shard, c->place.nr_runnable, c->place.root.vmin, c->own_lead_ns);
	scx_dump("compare_at=%llu timer_at=%llu now=%llu", c->compare_at_ns, c->timer_at_ns,
		 bpf_ktime_get_ns());
	scx_dump("shard: runnable=%u cpus=%u vmin=%llu lock=%u/%u", s->place.nr_runnable,
		 s->nr_cpus, s->place.root.vmin, s->lock.serving, s->lock.next);
}

SEC("struct_ops/consort_dump_task")
void BPF_PROG(consort_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	USES_ARENA();
	struct task __arena *t = find_task(p);

	if (!t) {
		scx_dump("not scheduled by consort");
		return;
	}
	scx_dump("place=%u cpu=%u pid=%d thief=%u active=%u waits=%u", t->place, t->cpu, t->pid,
		 t->thief, t->member.node.active, t->member.node.ready.queued);
	scx_dump("vtime=%llu weight=%llu parent's vmin=%llu set=%llx demoted=%u due=%llu",
		 t->member.node.vtime, t->member.node.weight, t->member.node.parent->vmin,
		 (u64)t->set, t->demoted, t->member.due_ns);
}

#endif
