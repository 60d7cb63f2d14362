/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* BPF timers: each has a number, by which the model calls its callback. */
#include <bpf/bpf_helpers.h>
#include "shim.h"

#define TIMER_ABS 1
#define TIMER_CPU_PIN 2

struct timer {
	void *map;
	void *value; /* the timer is its first field */
	u32 key;
	int (*callback)(void *map, u32 *key, void *value);
};

static struct timer timers[SIM_CPUS_MAX];
static u32 nr_timers;

void sim_timers_forget(void)
{
	nr_timers = 0;
}

long sim_timer_init(struct bpf_timer *timer, void *map, struct sim_map_shape shape)
{
	if (timer->number)
		return -16; /* EBUSY */
	if (nr_timers == SIM_CPUS_MAX)
		return -12;
	timers[nr_timers] = (struct timer){
		.map = map,
		.value = timer,
		.key = sim_map_index(map, shape, timer),
	};
	timer->number = ++nr_timers;
	return 0;
}

long sim_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	if (!timer->number)
		return -22;
	timers[timer->number - 1].callback = (int (*)(void *, u32 *, void *))callback;
	return 0;
}

long sim_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	if (!timer->number || !timers[timer->number - 1].callback)
		return -22;
	if (!(flags & TIMER_ABS))
		ns += bpf_ktime_get_ns();
	return sim_host->timer_start(timer->number, ns, flags & TIMER_CPU_PIN) ? 0 : -12;
}

void sim_timer_fire(u32 number)
{
	struct timer *t = &timers[number - 1];

	t->callback(t->map, &t->key, t->value);
}
