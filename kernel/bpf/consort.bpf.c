// SPDX-License-Identifier: GPL-2.0
/*
 * The sched_ext host: callbacks, in the order in which a task lives through them. The policy is core/'s.
 *
 * Tasks that wait are in the scheduler's own custody (custody.h). Running time is what the kernel measured
 * (sum_exec_runtime), charged when a CPU looks for its next task, so that no callback is needed when a task starts or
 * stops. For the same reason there is no dequeue callback: a waiting task that is taken away becomes quiescent, or is
 * enqueued elsewhere.
 */
#include "alone.h"
#include "balance.h"
#include "calls.h"
#include "choose.h"
#include "dump.h"
#include "exit.h"
#include "fork.h"
#include "groups.h"
#include "higher.h"
#include "life.h"
#include "limits.h"
#include "shards.h"
#include "subsets.h"
#include "wake.h"

char _license[] SEC("license") = "GPL";

SEC("struct_ops/consort_select_cpu")
s32 BPF_PROG(consort_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	USES_ARENA();
	bool is_idle = false;
	s32 cpu;

	if (!one_cpu && (wake_flags & WAKE(SYNC)))
		message_sent(p->pid);
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (!is_idle && topology.nr_shards > 1 && (wake_flags & WAKE(FORK)))
		cpu = cpu_for_new(p, cpu);
	return cpu;
}

/* A task that was running has already been put among those that wait by the choice of its successor: waits_at_once. */
static inline bool waits_already(const struct task __arena *t)
{
	return one_cpu && t->member.node.ready.queued;
}

/*
 * The kernel changes something about a running task: it is taken off its CPU and put back without a pause. Of the
 * flags of the kernel's core, in the lower half, some are then set; none where it is put among those that wait.
 */
static inline bool runs_on(const struct task_struct *p, u64 flags)
{
	return (u32)flags && scx_bpf_task_running(p);
}

/*
 * A task that ends may take long, giving back its memory, and waits its turn as all others do. The kernel's default is that a
 * CPU goes on with it, whoever is due. Once its parent may reap it its number may be gone, by which we find tasks: the little
 * that is left runs at once.
 */
static inline bool has_ended(const struct task_struct *p)
{
	return p->exit_state;
}

/*
 * Whether a task that still wants the CPU is interrupted. On several CPUs the kernel also puts the one back into the queue that its
 * CPU's choice has just looked at, and has not chosen.
 */
static inline bool is_interrupted(const struct task __arena *t, struct consort_cpu __arena *c)
{
	bool has_lost = !one_cpu && c->has_lost == t;

	if (has_lost)
		c->has_lost = NULL;
	return t->member.node.active && !has_lost;
}

SEC("struct_ops/consort_enqueue")
void BPF_PROG(consort_enqueue, struct task_struct *p, u64 flags)
{
	u32 cpu = one_cpu ? 0 : scx_bpf_task_cpu(p), place, looks = CPUS_MAX;
	u8 stays = one_cpu ? STAY_NOT : stay_of(p, cpu);
	enum wake_verdict verdict = WAKE_WAIT;
	struct task __arena *t = has_ended(p) ? NULL : task_of(p);
	struct consort_cpu __arena *c;
	struct shard __arena *s;
	bool woke, was_idle;
	u64 now_ns;

	USES_ARENA();
	if (!t) {
		insert_task(p, DSQ(GLOBAL), SLICE_BY_TIMER_NS, flags);
		return;
	}
	if (t->blocked)
		lend_end(t);
	if (waits_already(t)) {
		t->pid = p->pid;
		return;
	}
	c = cpu_at(cpu);
	s = shard_at(c->shard);
	if (!one_cpu && shard_of_place(t->place) != c->shard)
		leave_shard(t, p, place_of_shard(c->shard), bpf_ktime_get_ns());
	lock_take(&s->lock);
	t->pid = p->pid; /* a thread that executes a program takes its leader's */
	t->thief = 0;
	t->stays = stays;
	if (!one_cpu)
		look_aside(c, cpu, t);
	now_ns = bpf_ktime_get_ns();
	if (is_interrupted(t, c) && in_domain(t) && !slot_refresh(t, cpu, now_ns) && has_function(t))
		role_look(t, p->se.sum_exec_runtime, c->running == t ? c->since_ns : now_ns, now_ns);
	task_charge(t, p->se.sum_exec_runtime, now_ns);
	place = place_for(p, cpu, stays, true);
	if (t->place != place)
		task_move(t, t->home, t->set, place, t->demoted);
	task_take(t);
	if ((nr_limits || t->held_by) && !runs_on(p, flags) && hold_enqueued(t, now_ns)) {
		lock_release(&s->lock);
		return;
	}
	woke = !t->member.node.active;
	if (t->owes_ns)
		pay(t);
	if (woke && c->running != t)
		charge_running(c, cpu, now_ns);
	task_activate(t, now_ns);
	if (runs_on(p, flags)) {
		/* It has been charged until now; nobody has chosen it if it came down from a higher class. */
		if (c->running != t) {
			c->since_ns = now_ns;
			contract_begin(t, now_ns);
			if (!one_cpu)
				flight_begin(c, pays_of(t), place_at(t->place)->quantum_ns);
		}
		c->estimated_ns = now_ns - c->since_ns;
		c->running = t;
		t->cpu = cpu;
		lock_release(&s->lock);
		return;
	}
	if (woke) {
		count_on(cpu)->wakeups++;
		verdict = wake_decide(c, cpu, t, now_ns);
	}
	if (c->running && verdict != WAKE_WAIT)
		count_on(cpu)->preemptions++;
	was_idle = !c->running;
	if (verdict == WAKE_RUN) {
		task_begin(c, cpu, t, now_ns, cpu == bpf_get_smp_processor_id());
		count_on(cpu)->switches++;
	} else {
		task_wait(t, now_ns);
		wake_inform(c, cpu, t, now_ns);
		if (!one_cpu && !(woke && waits_for_sender(t)))
			looks = look_around(s, t, now_ns);
	}
	lock_release(&s->lock);

	if (!one_cpu && cpu == bpf_get_smp_processor_id())
		timer_follow(c, cpu);
	if (!one_cpu && was_idle && verdict == WAKE_RUN)
		pass_on(c);
	if (verdict == WAKE_RUN)
		insert_task(p, DSQ(LOCAL), kernel_slice_ns(c, now_ns), flags | ENQ(PREEMPT));
	else if (!one_cpu)
		wake_kick(p, cpu, place, verdict, looks);
	else if (verdict == WAKE_KICK)
		kick(cpu, KICK(PREEMPT));
	if (verdict == WAKE_WAIT && cpu == bpf_get_smp_processor_id() && timer_is_missing(c))
		kick(cpu, KICK(PREEMPT));
	if (!one_cpu)
		way_given(c);
	/* It has run, and its CPU has found nobody: not even itself, so it has come from elsewhere. */
	if (flags & ENQ(LAST))
		kick(cpu, KICK(PREEMPT));
}

SEC("struct_ops/consort_dispatch")
void BPF_PROG(consort_dispatch, s32 cpu, struct task_struct *prev)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct task __arena *t, *running = NULL, *next;
	u64 now_ns = bpf_ktime_get_ns();
	struct shard __arena *s;
	bool keep;

	USES_ARENA();
	if (!one_cpu)
		balance(c, cpu, now_ns);
	if (!prev && asks_in_vain(cpu))
		return;
	if (prev)
		look_at_rides(prev);
	if (!one_cpu && prev && goes_on_alone(c, cpu, prev, now_ns)) {
		count_on(cpu)->kept++;
		set_slice(prev, kernel_slice_ns(c, now_ns));
		return;
	}
	if (!one_cpu && idles_alone(c, cpu, prev)) {
		steal(c, cpu, now_ns);
		return;
	}
	s = shard_at(c->shard);
	if (users_are_to_be_asked(s, prev ? task_of(prev) : NULL))
		now_ns = users_ask(ctx, cpu, prev ? task_of(prev) : NULL, now_ns);
	lock_take(&s->lock);
	if (!one_cpu)
		flight_end(c);
	t = task_of_prev(c, prev);
	if (t) {
		account(c, cpu, t, prev->se.sum_exec_runtime, now_ns);
		if (t->member.node.active && is_queued(prev))
			running = t;
		if (nr_limits && hold_stopped(t, running, now_ns))
			running = NULL;
	}
	choose(c, cpu, running && !running->member.node.ready.queued ? running : NULL, now_ns);
	if (!one_cpu)
		c->told = 0;
	if (nr_limits && c->choice.task && hold_chosen(c, cpu, now_ns))
		c->choice.task = NULL;
	if (!c->choice.task) {
		c->running = NULL;
		c->asked_ns = 0;
		c->compare_at_ns = NEVER_NS;
		/* Unless it could not be armed for whoever was put aside, it is. */
		if (!one_cpu && c->left)
			timer_arm(c, cpu, now_ns);
		set_workless(cpu);
		lock_release(&s->lock);
		if (!one_cpu)
			steal(c, cpu, now_ns);
		return;
	}
	next = task_of_node(c->choice.task);
	next->pays = c->choice.pays;
	pay_back_asked(c, next);
	keep = next == running;
	if (!one_cpu)
		c->has_lost = keep ? NULL : running;
	if (!keep && waits_at_once(running, prev))
		task_exchange(next, running, now_ns);
	else
		task_take(next);
	task_begin_here(c, cpu, next, now_ns);
	if (c->choice.due_ns != NEVER_NS)
		count_on(cpu)->due_choices++;
	if (!keep)
		hand_over(c, cpu, next, now_ns);
	lock_release(&s->lock);
	if (!one_cpu)
		timer_follow(c, cpu);
	if (!keep)
		return;
	count_on(cpu)->kept++;
	set_slice(prev, kernel_slice_ns(c, now_ns));
}

SEC("struct_ops/consort_quiescent")
void BPF_PROG(consort_quiescent, struct task_struct *p, u64 flags)
{
	USES_ARENA();
	struct task __arena *t = task_of(p);
	struct lock __arena *l;

	/* What the kernel changes about a task while it runs is no pause: it often goes on without being enqueued. */
	if (!t || (!(flags & DEQ(SLEEP)) && scx_bpf_task_running(p)))
		return;
	l = task_lock(t);
	t->thief = 0;
	task_take(t);
	hold_no_more(t);
	if (!one_cpu && (flags & DEQ(SLEEP)))
		charge_sleeper(t);
	if (t->set && (flags & DEQ(SLEEP)))
		member_sleeps(t, bpf_ktime_get_ns());
	if ((flags & DEQ(SLEEP)) && may_lend(t) && waits_for_holder(p)) {
		if (!in_domain(t))
			charge_until_now(t);
		t->blocked = 1;
	}
	task_deactivate(t);
	task_end(t);
	lock_release(l);
	if (t->blocked)
		lend(t);
}

SEC("struct_ops/consort_set_weight")
void BPF_PROG(consort_set_weight, struct task_struct *p, u32 weight)
{
	USES_ARENA();
	struct task __arena *t = task_of(p);
	struct lock __arena *l;

	if (!t)
		return;
	l = task_lock(t);
	task_set_weight(t, weight_of_task(p));
	lock_release(l);
	if (t->blocked)
		lend_on(t, t);
}

/* May sleep, but the kernel does not let the task be marked as ours yet: only memory is seen to. */
SEC("struct_ops.s/consort_init_task")
s32 BPF_PROG(consort_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	USES_ARENA();
	return task_pool_reserve() ? 0 : -ENOMEM;
}

SEC("struct_ops/consort_enable")
void BPF_PROG(consort_enable, struct task_struct *p)
{
	struct task __arena *t;

	USES_ARENA();
	if (!find_task(p) && !task_enter(p)) {
		scx_error("enable: no state for task %d: %d of %d in use", p->pid,
			  task_pool->nr_reserved, task_pool->nr_all);
		return;
	}
	t = task_of(p);
	t->charged_ns = p->se.sum_exec_runtime;
	role_came_back(t);
	/*
	 * It came down from a higher class while it ran: nobody has chosen it, or knows when it is to be compared. With a slice
	 * left it would stay in its CPU's local queue when that class takes the CPU again, of which Linux 7 need not tell us.
	 */
	if (scx_bpf_task_running(p))
		set_slice(p, 0);
}

/* The task changes to a class that we do not schedule, or ends. The kernel clears our mark on it afterwards. */
SEC("struct_ops/consort_disable")
void BPF_PROG(consort_disable, struct task_struct *p)
{
	struct task __arena *t;
	bool kept;

	USES_ARENA();
	t = find_task(p);
	if (!t)
		return;
	if (nr_limits && p->se.sum_exec_runtime > t->charged_ns)
		budget_charge(t, p->se.sum_exec_runtime - t->charged_ns);
	kept = is_promised(t) && !(p->flags & PF_EXITING) && keep_for(p, t);
	task_leave(t, kept ? (u64)p : 0);
	if (!kept)
		task_pool_push(t);
}

SEC("struct_ops/consort_exit_task")
void BPF_PROG(consort_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task __arena *t;

	USES_ARENA();
	t = find_away(p);
	if (t)
		end_away(t);
	task_pool_unreserve();
}

SEC("struct_ops/consort_cpu_online")
void BPF_PROG(consort_cpu_online, s32 cpu)
{
	USES_ARENA();
	cpu_comes(cpu);
}

SEC("struct_ops/consort_cpu_offline")
void BPF_PROG(consort_cpu_offline, s32 cpu)
{
	USES_ARENA();
	cpu_goes(cpu);
}

/* A task of a higher class takes the CPU: what waits in its local queue may run elsewhere. Who ran there: higher.h. */
SEC("struct_ops/consort_cpu_release")
void BPF_PROG(consort_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	USES_ARENA();
	cpu_is_taken(cpu_at(cpu));
	if (bpf_ksym_exists(scx_bpf_reenqueue_local))
		scx_bpf_reenqueue_local();
}

SEC("struct_ops/consort_exit")
void BPF_PROG(consort_exit, struct scx_exit_info *info)
{
	USES_ARENA();
	for (u32 client = hidden(0); !keeps_pages && client < CLIENTS_MAX && can_loop;
	     client = hidden(client + 1)) {
		struct consort_page *page = client_page(client);

		if (page)
			page->header.attached = 0;
	}
	exit_record(&exit_info, info);
}

SEC(".struct_ops.link")
struct sched_ext_ops consort_ops = {
	.select_cpu = (void *)consort_select_cpu,
	.enqueue = (void *)consort_enqueue,
	.dispatch = (void *)consort_dispatch,
	.quiescent = (void *)consort_quiescent,
	.set_weight = (void *)consort_set_weight,
	.init_task = (void *)consort_init_task,
	.exit_task = (void *)consort_exit_task,
	.enable = (void *)consort_enable,
	.disable = (void *)consort_disable,
	.cgroup_init = (void *)consort_cgroup_init,
	.cgroup_exit = (void *)consort_cgroup_exit,
	.cgroup_move = (void *)consort_cgroup_move,
	.cgroup_set_weight = (void *)consort_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)consort_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)consort_cgroup_set_idle,
	.cpu_online = (void *)consort_cpu_online,
	.cpu_offline = (void *)consort_cpu_offline,
	.cpu_release = (void *)consort_cpu_release,
	.dump_cpu = (void *)consort_dump_cpu,
	.dump_task = (void *)consort_dump_task,
	.exit = (void *)consort_exit,
	.flags = SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST,
	/* The loader sets timeout_ms. */
	.name = "consort",
};
