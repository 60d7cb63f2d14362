/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One-shot timers: a slice ends when it ends, not at the next tick.
 *
 * Rule     One timer a CPU. It is armed only when it would fire later than the running task's end; a timer
 *          that fires early looks at the end that holds now and arms itself again. Switches in quick
 *          succession thus cost no timer operation at all. On several CPUs it is armed without the shard's lock: in a
 *          virtual machine the hypervisor is asked, and others would wait for that.
 * Limits   Kernels that refuse BPF timers (PREEMPT_RT) end slices at the tick: slices are then multiples of it.
 */
#ifndef CONSORT_TIMER_H
#define CONSORT_TIMER_H

#include "kick.h"

#define TIMER_ABS (1 << 0) /* BPF_F_TIMER_ABS */
#define TIMER_CPU_PIN (1 << 1) /* BPF_F_TIMER_CPU_PIN */
/* A timer that fires this much early counts as on time. */
#define TIMER_EARLY_NS 1000

struct slice_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct slice_timer);
} timers SEC(".maps");

/* Must run on the CPU itself. */
static inline void timer_arm(struct consort_cpu __arena *c, u32 cpu, u64 at_ns)
{
	u64 armed_for_ns = c->timer_at_ns;
	struct slice_timer *t;

	if (!use_timers || at_ns >= c->timer_at_ns || is_dying(cpu))
		return;
	t = bpf_map_lookup_elem(&timers, &cpu);
	if (!t)
		return;
	c->timer_at_ns = at_ns;
	c->timer_failed = 0;
	if (!bpf_timer_start(&t->timer, at_ns, TIMER_ABS | TIMER_CPU_PIN))
		return;
	/* What it was armed for before still holds. */
	c->timer_at_ns = armed_for_ns;
	c->timer_failed = 1;
	count_on(cpu)->timer_failures++;
}

/* Whether no timer ends the running task's slice in time: its end is then left to the kernel, at the tick. */
static inline bool timer_is_missing(const struct consort_cpu __arena *c)
{
	return c->compare_at_ns < c->timer_at_ns;
}

/*
 * On several CPUs, by the CPU itself once its shard's lock is released: it has something to run until a time. Where the timer
 * fails the next choice leaves the end of the slice to the kernel.
 */
static inline void timer_follow(struct consort_cpu __arena *c, u32 cpu)
{
	bool had_failed = c->timer_failed;

	if (!timer_is_missing(c))
		return;
	timer_arm(c, cpu, c->compare_at_ns);
	if (timer_is_missing(c) && c->timer_failed && !had_failed)
		kick(cpu, KICK(PREEMPT));
}

static inline void release_left(struct consort_cpu __arena *c, u32 cpu);

static int timer_fired(void *map, u32 *key, struct slice_timer *t)
{
	u32 cpu = *key;
	struct consort_cpu __arena *c = cpu_at(cpu);
	u64 at_ns = c->compare_at_ns;

	c->timer_at_ns = NEVER_NS;
	count_on(cpu)->timers++;
	if (!one_cpu && c->left)
		release_left(c, cpu);
	if (at_ns == NEVER_NS)
		return 0;
	if (bpf_ktime_get_ns() + TIMER_EARLY_NS < at_ns)
		timer_arm(c, cpu, at_ns);
	/* It is time, or nobody would say when it is: the next choice gives the kernel the end of the slice. */
	if (timer_is_missing(c))
		kick(cpu, KICK(PREEMPT));
	return 0;
}

static inline int timer_init(u32 cpu)
{
	struct slice_timer *t = bpf_map_lookup_elem(&timers, &cpu);
	int err;

	if (!t)
		return -EINVAL;
	err = bpf_timer_init(&t->timer, &timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&t->timer, timer_fired);
}

#endif
