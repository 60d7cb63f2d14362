/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The scheduler's own source, and the way into it. Its variables are in sections of their own, so that one run after
 * another can begin with them as they were loaded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <bpf/bpf_helpers.h>
#include "shim.h"

/* libconsort has functions of these names, too, and a program may use both. */
#define consort_join scheduler_join
#define consort_leave scheduler_leave

#pragma clang section bss = "consort_bss" data = "consort_data" rodata = "consort_rodata"
#include "locks.h"
#include "consort.bpf.c"
#pragma clang section bss = "" data = "" rodata = ""

/* The highest number that a domain has had in this run. */
static u32 sim_domains_max;
/* The same of reservations. */
static u32 sim_reservations_max;

#include "kfuncs.h"
#include "occupied.h"
#include "seated.h"
#include "check.h"
#include "bounds.h"
#include "rides.h"
#include "promises.h"
#include "roles.h"
#include "accounts.h"
#include "past.h"
#include "gives.h"
#include "inspect.h"

extern char __start_consort_bss[], __stop_consort_bss[];
extern char __start_consort_data[], __stop_consort_data[];
extern char __start_consort_rodata[], __stop_consort_rodata[];

const struct sim_host *sim_host;
long sim_loops_left;
bool sim_concurrent;

/* Far more than any of the scheduler's loops needs in a simulated machine. */
#define LOOPS_MAX 10000000L

static char *data_as_loaded, *rodata_as_loaded;

static void *copy_of(const char *from, const char *to)
{
	void *copy = malloc(to - from);

	return copy ? memcpy(copy, from, to - from) : NULL;
}

/* What BPF holds constant is set before a run: as the kernel's loader can, before it loads. */
static void make_writable(char *from, const char *to)
{
	const unsigned long page = 4096;
	unsigned long start = (unsigned long)from & ~(page - 1);

	if (mprotect((void *)start, (unsigned long)to - start, PROT_READ | PROT_WRITE))
		abort();
}

static void reset(const struct sim_host *host, bool concurrent, bool has_new)
{
	sim_maps_free();
	sim_timers_forget();
	forget_past();
	forget_root_parts();
	forget_gives();
	forget_roles();
	memset(__start_consort_bss, 0, __stop_consort_bss - __start_consort_bss);
	memcpy(__start_consort_data, data_as_loaded, __stop_consort_data - __start_consort_data);
	memcpy(__start_consort_rodata, rodata_as_loaded,
	       __stop_consort_rodata - __start_consort_rodata);
	sim_host = host;
	sim_concurrent = concurrent;
	sim_has_scx_bpf_dsq_insert___v2 = has_new;
	sim_has_scx_bpf_task_set_slice = has_new;
	sim_has_scx_bpf_task_set_dsq_vtime = has_new;
	sim_has_scx_bpf_reenqueue_local = true;
	sim_loops_left = LOOPS_MAX;
	sim_domains_max = 0;
	sim_reservations_max = 0;
}

static bool begin(void)
{
	bool ended = sim_loops_left <= 0;

	sim_loops_left = LOOPS_MAX;
	return ended;
}

static void domain_create(struct consort_domain_args *args)
{
	consort_domain_create(args);
	if (!args->error && args->domain > sim_domains_max)
		sim_domains_max = args->domain;
}

static int reservation_create(struct consort_reservation_args *args)
{
	consort_reservation_create(args);
	if (!args->error && args->reservation > sim_reservations_max)
		sim_reservations_max = args->reservation;
	return 0;
}

/* As the program that the kernel would run: it finds the CPU's record, or does nothing. */
void sim_tail_call(u32 number)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct consort_df_record *record = bpf_map_lookup_elem(&df_records, &cpu);

	if (record)
		sim_host->answer(number, cpu_at(cpu)->asks_birth, record);
}

static void set_page(u32 client, struct consort_mapping *page)
{
	sim_map_set_inner(&clients, SIM_MAP_SHAPE(&clients), client, page, sizeof(*page));
}

static struct sim_scheduler scheduler = {
	.ops = &consort_ops,
	.topology = (struct consort_topology *)&topology,
	.tunables = &tunables,
	.counters = counters,
	.exit_info = &exit_info,
	.reasons = reasons,
	.one_cpu = (bool *)&one_cpu,
	.is_virtual = (bool *)&is_virtual,
	.use_timers = (bool *)&use_timers,
	.cpus_max = CPUS_MAX,
	.shards_max = SHARDS_MAX,
	.counters_per_cpu = sizeof(struct consort_counters) / sizeof(u64),
	.init_arena = consort_init_arena,
	.domain_create = domain_create,
	.domain_destroy = consort_domain_destroy,
	.join = consort_join,
	.leave = consort_leave,
	.classes = consort_classes,
	.class_table = &class_table,
	.reservation_create = reservation_create,
	.reservation_change = consort_reservation_change,
	.reservation_add = consort_reservation_add,
	.reservation_end = consort_reservation_end,
	.reservation_usage = consort_reservation_usage,
	.plan = consort_plan,
	.plan_part = plan_part,
	.role = consort_role,
	.user = consort_user,
	.timer_fire = sim_timer_fire,
	.set_page = set_page,
	.reset = reset,
	.begin = begin,
	.check = check,
	.begin_vtime = begin_vtime,
	.view = view,
	.sets_left = sets_left,
};

__attribute__((visibility("default"))) const struct sim_scheduler *sim_open(void)
{
	if (!data_as_loaded) {
		make_writable(__start_consort_rodata, __stop_consort_rodata);
		data_as_loaded = copy_of(__start_consort_data, __stop_consort_data);
		rodata_as_loaded = copy_of(__start_consort_rodata, __stop_consort_rodata);
	}
	return data_as_loaded && rodata_as_loaded ? &scheduler : NULL;
}
