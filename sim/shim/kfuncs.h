/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The kernel functions that the scheduler calls, as the model gives them. Included once, after the scheduler. */

bool sim_has_scx_bpf_dsq_insert___v2;
bool sim_has_scx_bpf_task_set_slice;
bool sim_has_scx_bpf_task_set_dsq_vtime;
bool sim_has_scx_bpf_reenqueue_local;

void *bpf_arena_alloc_pages(void *map, void *addr, u32 pages, int node, u64 flags)
{
	return sim_host->arena_alloc(pages);
}

void bpf_arena_free_pages(void *map, void *addr, u32 pages)
{
	sim_host->arena_free(addr, pages);
}

void bpf_local_irq_save(unsigned long *flags)
{
	*flags = 0;
	sim_host->irq_save();
}

void bpf_local_irq_restore(unsigned long *flags)
{
	sim_host->irq_restore();
}

int bpf_res_spin_lock(struct bpf_res_spin_lock *lock)
{
	sim_sync();
	while (lock->val)
		sim_host->spin();
	lock->val = 1;
	return 0;
}

void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock)
{
	lock->val = 0;
	sim_sync();
}

struct task_struct *bpf_task_from_pid(s32 pid)
{
	sim_sync();
	return sim_host->task_from_pid(pid);
}

void bpf_task_release(struct task_struct *p)
{
	sim_host->task_release(p);
}

void bpf_rcu_read_lock(void)
{
}

void bpf_rcu_read_unlock(void)
{
}

int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task, u32 flags)
{
	it->next = 0;
	return 0;
}

struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it)
{
	struct task_struct *p;

	sim_sync();
	p = sim_host->next_task(it->next);
	if (p)
		it->next = p->sim_task + 1;
	return p;
}

void bpf_iter_task_destroy(struct bpf_iter_task *it)
{
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SIM_CPUS_MAX && (mask->bits[cpu / 64] >> cpu % 64 & 1);
}

u32 bpf_cpumask_first(const struct cpumask *mask)
{
	u32 cpu = 0;

	while (cpu < SIM_CPUS_MAX && !bpf_cpumask_test_cpu(cpu, mask))
		cpu++;
	return cpu;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	sim_sync();
	sim_host->dsq_insert(p, dsq, slice, flags);
}

bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	sim_sync();
	sim_host->dsq_insert(p, dsq, slice, flags);
	return true;
}

bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	sim_host->task_set_slice(p, slice);
	return true;
}

bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	p->scx.dsq_vtime = vtime;
	return true;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	sim_sync();
	sim_host->kick_cpu(cpu, flags);
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return sim_host->task_cpu(p);
}

bool scx_bpf_task_running(const struct task_struct *p)
{
	return sim_host->task_running(p);
}

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	sim_sync();
	return sim_host->select_cpu_dfl(p, prev_cpu, wake_flags, is_idle);
}

const struct cpumask *scx_bpf_get_possible_cpumask(void)
{
	static struct cpumask all;

	for (u32 word = 0; word < sizeof(all.bits) / sizeof(all.bits[0]); word++)
		all.bits[word] = ~0ULL;
	return &all;
}

/* The model has no moment in which a CPU still runs and is not online any more. */
const struct cpumask *scx_bpf_get_online_cpumask(void)
{
	return scx_bpf_get_possible_cpumask();
}

void scx_bpf_put_cpumask(const struct cpumask *mask)
{
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	sim_sync();
	return sim_host->pick_idle_cpu(allowed, flags);
}

u32 scx_bpf_reenqueue_local(void)
{
	sim_sync();
	return sim_host->reenqueue_local();
}

/* The scheduler gives each argument as 64 bits, at most eight of them. */
static void format(char *text, u32 size, const char *fmt, const unsigned long long *data,
		   u32 data_len)
{
	unsigned long long a[8] = { 0 };

	memcpy(a, data, data_len < sizeof(a) ? data_len : sizeof(a));
	snprintf(text, size, fmt, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
	text[strcspn(text, "\n")] = 0;
}

void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 data_len)
{
	char text[256];

	format(text, sizeof(text), fmt, data, data_len);
	sim_host->error(text);
}

/* It leaves for want of room for a CPU, and a simulated machine has none that it did not have at the start. */
void scx_bpf_exit_bstr(s64 code, char *fmt, unsigned long long *data, u32 data_len)
{
	scx_bpf_error_bstr(fmt, data, data_len);
}

void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data_len)
{
	char text[256];

	format(text, sizeof(text), fmt, data, data_len);
	sim_host->dump(text);
}

/* Where it is given memory that may be gone: what the scheduler reads so is the model's, and stays. */
long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	if (!from)
		return -14; /* EFAULT */
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	return snprintf(to, size, "%s", (const char *)from);
}
