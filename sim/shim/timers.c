/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* BPF timers: each has a number, by which the model calls its callback. */
#include <bpf/bpf_helpers.h>
#include "shim.h"

#define TIMER_ABS 1
#define TIMER_CPU_PIN 2

struct timer {
	void *map;
	void *value; /* the timer is its first field; NULL: it has gone with its entry of the map */
	u64 key; /* of the map's type, in its first bytes */
	int (*callback)(void *map, void *key, void *value);
};

/* One a CPU, and some by cgroup. */
#define TIMERS_MAX (SIM_CPUS_MAX + 4096)

static struct timer timers[TIMERS_MAX];
static u32 nr_timers;

void sim_timers_forget(void)
{
	nr_timers = 0;
}

long sim_timer_init(struct bpf_timer *timer, void *map, struct sim_map_shape shape)
{
	if (timer->number)
		return -16; /* EBUSY */
	if (nr_timers == TIMERS_MAX)
		return -12;
	timers[nr_timers] = (struct timer){ .map = map, .value = timer };
	sim_map_key_of(map, shape, timer, &timers[nr_timers].key);
	timer->number = ++nr_timers;
	return 0;
}

long sim_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	if (!timer->number)
		return -22;
	timers[timer->number - 1].callback = (int (*)(void *, void *, void *))callback;
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

void sim_timers_end(const void *value)
{
	for (u32 i = 0; i < nr_timers; i++)
		if (timers[i].value == value)
			timers[i].value = NULL;
}

void sim_timer_fire(u32 number)
{
	struct timer *t = &timers[number - 1];

	if (t->value)
		t->callback(t->map, &t->key, t->value);
}
