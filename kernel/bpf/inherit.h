/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Priority inheritance: who holds what a better-placed task waits for runs in that one's seat.
 *
 * Problem  A task that has reserved waits for a lock whose holder waits behind everybody else; a client waits for its
 *          server, which has not reserved what the client has.
 * Rule     The kernel knows who holds a PI futex, and who writes to a process' map of memory (mmap_lock), as the kernel's
 *          khugepaged does with nice 19. While a task sleeps for one, its holder rides in its seat: in its group,
 *          with its weight and its lead, on its reservation, if that gives the holder more than its own seat, or than that
 *          of another one in which it rides. So what it uses is the waiter's; the waiter's own virtual time pays for it
 *          once it wakes. A holder that waits for another one lends on the seat that it has: a chain. The ride
 *          ends when the waiter wakes, however it does, or when either of them is ours no more. Who rides is looked at
 *          again whenever it is charged: the lock may have got another holder.
 * Bound    Of a waiter and those in its chain one at a time runs in its seat: nobody gets more than the waiter gave up. A
 *          new holder rides at the latest when it is charged next.
 * Source   004 section 4; 001 (ticket transfer); the trains of the client library are PI futexes.
 * Limits   A member of a domain does not ride. It lends its seat only on a reservation, which pays for the ride: its own
 *          virtual time does not. Of several waiters the holder has the best one's seat, not their sum; when
 *          that one gives up, it has the kernel's first one's. Beyond CHAIN_MAX links, a seat that changes hands is given on
 *          when the one that rides in it is charged. A task that only reads a map of memory is not known as its holder, nor one that
 *          waits for another process' map as a waiter. One that sleeps for a device meanwhile lends to whoever writes to its map while others wait for
 *          that. Other locks of the kernel have no holder that is known.
 */
#ifndef CONSORT_INHERIT_H
#define CONSORT_INHERIT_H

#include "run.h"

/* Longer chains are a hostile program's: the kernel follows 1024 links. */
#define CHAIN_MAX 32

/* In rt_mutex_base.owner: somebody waits. */
#define OWNER_FLAGS 1ULL

/* In rw_semaphore.owner: it reads, and may be one of several; nobody is to spin. In rw_semaphore.count: somebody waits. */
#define OWNER_READS 1ULL
#define OWNER_RW_FLAGS 3ULL
#define COUNT_WAITED_FOR 2ULL

/* Who writes to the task's map of memory, as its task_struct's address, while others wait for that; 0: nobody. */
static inline u64 writer_of_memory(const struct task_struct *p)
{
	u64 owner = BPF_CORE_READ(p, mm, mmap_lock.owner.counter);

	if (!(BPF_CORE_READ(p, mm, mmap_lock.count.counter) & COUNT_WAITED_FOR) ||
	    (owner & OWNER_READS))
		return 0;
	return owner & ~OWNER_RW_FLAGS;
}

/* Whether a task that goes to sleep waits for a lock whose holder the kernel knows. */
static inline bool waits_for_holder(const struct task_struct *p)
{
	if (p->flags & PF_EXITING)
		return false;
	if (bpf_core_field_exists(p->pi_blocked_on) && p->pi_blocked_on)
		return true;
	return (p->__state & TASK_UNINTERRUPTIBLE) && writer_of_memory(p);
}

/* Whether anybody waits so for the task. Not `pi_top_task`: that is not set for who gets a lock that others wait for. */
static inline bool is_waited_for(const struct task_struct *p)
{
	return bpf_core_field_exists(p->pi_waiters) && p->pi_waiters.rb_leftmost;
}

/* Our state of a task by its task_struct's address, which need not be valid any more; NULL if it is not ours. */
static inline struct task __arena *task_at(u64 address)
{
	const struct task_struct *p = (const struct task_struct *)address;
	struct task __arena *t = (struct task __arena *)BPF_CORE_READ(p, scx.dsq_vtime);

	return t && t->kernel_task == address ? t : NULL;
}

/*
 * Who holds what the task waits for; once it has been given back, the first of those that wait is about to. The task
 * may wake meanwhile: what is read then need not be true, and is looked at again.
 */
static inline struct task __arena *find_holder(struct task __arena *t)
{
	const struct task_struct *p = (const struct task_struct *)t->kernel_task;
	const struct rt_mutex_waiter *w = BPF_CORE_READ(p, pi_blocked_on);
	const struct rt_mutex_base *lock = w ? BPF_CORE_READ(w, lock) : NULL;
	struct task __arena *holder;
	u64 owner, first;

	if (!lock) {
		holder = task_at(writer_of_memory(p));
		return holder != t ? holder : NULL;
	}
	owner = (u64)BPF_CORE_READ(lock, owner) & ~OWNER_FLAGS;
	if (!owner) {
		first = (u64)BPF_CORE_READ(lock, waiters.rb_leftmost);
		if (!first)
			return NULL;
		first -= bpf_core_field_offset(struct rt_mutex_waiter, tree.entry);
		w = (const struct rt_mutex_waiter *)first;
		owner = (u64)BPF_CORE_READ(w, task);
	}
	holder = task_at(owner);
	return holder != t ? holder : NULL;
}

/* Whether the task is running at this moment: it may have been chosen, and not have begun to. */
static inline bool is_current(const struct task __arena *t)
{
	const struct rq *rq;

	if (cpu_at(t->cpu)->running != t)
		return false;
	if (t->cpu == bpf_get_smp_processor_id())
		return task_of(bpf_get_current_task_btf()) == t;
	rq = bpf_per_cpu_ptr(&runqueues, t->cpu);
	return rq && (u64)rq->curr == t->kernel_task;
}

/* What a task has had until now belongs to the seat in which it has been until now. With its lock held. */
core_fn charge_until_now(struct task __arena *t in_arena)
{
	if (is_current(t))
		charge_by_clock(cpu_at(t->cpu), bpf_ktime_get_ns());
	return 0;
}

/* What a seat has of a place, in capacities of classes; it is there without its task, too. */
static inline u64 seat_rate(const struct task __arena *in, u32 place, int active)
{
	struct group_set __arena *home = in->home;
	struct group __arena *root = &place_at(place)->root;
	u64 rate = tree_share_if(group_in(home, place), in->weight, active), all;

	if (in->reservation || is_reserved(home))
		return rate;
	all = root->weight_active + (active ? 0 : rate);
	return root->node.weight * rate / (all ? all : 1);
}

/*
 * Whether the seat of `waiter` is better than the one that the task has: also if a limit keeps the task from using that. Read
 * without the waiter's lock.
 */
static inline bool outranks(const struct task __arena *waiter, struct task __arena *t)
{
	if (nr_limits && !is_limited(waiter->home) && budget_binds(t, bpf_ktime_get_ns()))
		return true;
	if (waiter->home == t->home)
		return waiter->weight > t->weight;
	return seat_rate(waiter, t->place, 0) > seat_rate(t, t->place, t->member.node.active);
}

/* Moves a task to another seat. What it is (waiting, running, asleep) it stays. */
core_fn take_seat(struct task __arena *t in_arena, struct group_set __arena *home in_arena,
		  u32 weight, u64 lead_ns)
{
	struct tree_node __arena *n = &t->member.node;
	u64 most_ns = tunables.granularity_ns;
	bool waits = n->ready.queued, active = n->active;

	budget_give_back(t);
	if (waits)
		take_alone(t);
	if (active)
		deactivate_alone(t);
	t->home = home;
	t->weight = weight;
	tree_set_weight(n, weight);
	tree_move(n, group_in(home, t->place), lead_ns < most_ns ? lead_ns : most_ns);
	if (active)
		activate_alone(t, bpf_ktime_get_ns());
	if (waits)
		wait_alone(t, bpf_ktime_get_ns());
	if (t->held_by)
		held_moved(t);
	return 0;
}

/* A task that waits elsewhere than this CPU's next choice looks has got a better seat: who can run it compares again. */
static inline void tell_better(const struct task __arena *t)
{
	u32 here = bpf_get_smp_processor_id();

	if (one_cpu || !t->member.node.ready.queued || t->place == cpu_at(here)->shard ||
	    t->place == place_of_cpu(here))
		return;
	if (is_own(t->place))
		kick(t->place - SHARDS_MAX, KICK(PREEMPT));
	else if (cpu_at(t->cpu)->shard == shard_of_place(t->place))
		kick(t->cpu, KICK(PREEMPT));
}

/* The lock of `t` is held. */
static inline void ride_begin(struct task __arena *t, struct task __arena *waiter)
{
	struct group_set __arena *home = waiter->home;
	u64 lead_ns = waiter->owes_ns;

	/* A member's virtual time is its domain's, not that of the account. */
	if (!in_domain(waiter))
		lead_ns += fair_lead_ns(waiter->member.node.parent, &waiter->member.node);
	charge_until_now(t);
	t->own.home = t->home;
	t->own.reservation = t->reservation;
	t->own_weight = t->weight;
	t->own.lead_ns = fair_lead_ns(t->member.node.parent, &t->member.node);
	t->rides = waiter;
	t->rides_from_ns = t->charged_ns;
	t->reservation = waiter->reservation;
	__sync_fetch_and_add(&home->nr_riders, 1);
	take_seat(t, home, waiter->weight, lead_ns);
	tell_better(t);
}

/* The same; `payer` pays for the ride: the waiter, unless that had the seat from another one. */
static __always_inline void ride_end(struct task __arena *t, struct task __arena *payer)
{
	struct group_set __arena *home = t->home;
	s64 used_ns;

	charge_until_now(t);
	budget_give_back(t);
	used_ns = t->charged_ns - t->rides_from_ns;
	if (used_ns > 0)
		__sync_fetch_and_add(&payer->owes_ns, used_ns);
	t->rides = NULL;
	t->reservation = t->own.reservation;
	t->own.reservation = NULL;
	take_seat(t, t->own.home, t->own_weight, t->own.lead_ns);
	__sync_fetch_and_add(&home->nr_riders, -1);
}

/* Ends a ride because of something that happens to the one who rides. */
core_fn ride_leave(struct task __arena *t in_arena)
{
	if (t->rides)
		ride_end(t, t->rides);
	return 0;
}

static inline struct reservation __arena *own_reservation(const struct task __arena *t)
{
	return t->rides ? t->own.reservation : t->reservation;
}

enum ride_change {
	RIDE_AS_BEFORE,
	RIDE_ANOTHER, /* another seat, in which the task was not */
	RIDE_CHANGED, /* the seat in which the task was has changed, or is its no more */
};

/*
 * Whether `t` rides in the seat of `waiter` is decided anew, with the lock of `t` held. The seat is read without the
 * waiter's lock: whoever changes it calls lend_on afterwards.
 */
static __always_inline enum ride_change
ride_settle(struct task __arena *t, struct task __arena *waiter, struct task __arena *payer)
{
	bool rode = t->rides == waiter, holds = waiter->holder == t && t->kernel_task && !t->set;

	if (rode && holds && t->home == waiter->home && t->weight == waiter->weight &&
	    t->reservation == waiter->reservation)
		return RIDE_AS_BEFORE;
	if (rode)
		ride_end(t, payer);
	if (holds && outranks(waiter, t)) {
		if (t->rides)
			ride_end(t, t->rides);
		ride_begin(t, waiter);
		return rode ? RIDE_CHANGED : RIDE_ANOTHER;
	}
	return rode ? RIDE_CHANGED : RIDE_AS_BEFORE;
}

/* One link of a chain. Returns an enum ride_change. */
core_fn lend_link(struct task __arena *t in_arena, struct task __arena *holder in_arena,
		  struct task __arena *payer in_arena)
{
	struct lock __arena *l = task_lock(holder);
	enum ride_change change = ride_settle(holder, t, payer);

	lock_release(l);
	return change;
}

/* The seat of `t` has changed: so do those along the chain of holders. No lock is held; interrupts are off. */
core_fn lend_on(struct task __arena *t in_arena, struct task __arena *payer in_arena)
{
	struct task __arena *holder;
	int change;

	for (u32 link = hidden(0); link < CHAIN_MAX && can_loop; link = hidden(link + 1)) {
		holder = t->holder;
		if (!holder)
			break;
		change = lend_link(t, holder, payer);
		if (change == RIDE_AS_BEFORE)
			break;
		/* What the next one has had, it has had in the seat that this one had from the payer. */
		if (change == RIDE_ANOTHER)
			payer = holder;
		t = holder;
	}
	return 0;
}

/* Whether somebody may ride in the task's seat: of a member's, nothing but a reservation could pay for that. */
static inline bool may_lend(const struct task __arena *t)
{
	return !in_domain(t) || t->reservation;
}

/* The task's seat is not its former holder's any more. */
static inline void take_back(struct task __arena *t, struct task __arena *holder)
{
	struct lock __arena *l = task_lock(holder);

	if (holder->rides == t)
		ride_end(holder, t);
	lock_release(l);
	lend_on(holder, t);
}

/* A task sleeps, or what it waits for may have got another holder: who holds it now has its seat. As lend_on. */
core_fn lend(struct task __arena *t in_arena)
{
	struct lock __arena *l = task_lock(t);
	struct task __arena *holder = t->blocked ? find_holder(t) : NULL, *former = t->holder;

	t->holder = holder;
	lock_release(l);
	if (former && former != holder)
		take_back(t, former);
	lend_on(t, t);
	return 0;
}

/* The first of those that wait for one of the task's locks. */
static inline struct task __arena *first_waiter(const struct task_struct *p)
{
	u64 first = (u64)BPF_CORE_READ(p, pi_waiters.rb_leftmost);
	const struct rt_mutex_waiter *w;

	if (!first)
		return NULL;
	w = (const struct rt_mutex_waiter *)(first - bpf_core_field_offset(struct rt_mutex_waiter,
									   pi_tree.entry));
	return task_at((u64)BPF_CORE_READ(w, task));
}

/* The same for who rides in whose seat, for a task that has just run or has given back a lock. */
static inline void ride_review(struct task __arena *t)
{
	const struct task_struct *p = (const struct task_struct *)t->kernel_task;
	struct task __arena *waiter = t->rides;

	if (waiter)
		lend(waiter);
	if (t->rides || !p)
		return;
	waiter = first_waiter(p);
	if (waiter)
		lend(waiter);
}

/* The task waits for nobody any more. As lend_on. */
core_fn lend_no_more(struct task __arena *t in_arena)
{
	struct lock __arena *l = task_lock(t);
	struct task __arena *holder = t->holder;

	t->holder = NULL;
	t->blocked = 0;
	lock_release(l);
	if (holder)
		take_back(t, holder);
	return 0;
}

/* The same for one that wakes, or is ours no more: somebody else may wait for the holder. */
static inline void lend_end(struct task __arena *t)
{
	struct task __arena *holder = t->holder;

	lend_no_more(t);
	if (holder)
		ride_review(holder);
}

/*
 * What others have had in the task's seat it pays for, before it is active again: so far ahead it may be, and no more, as
 * if it had come from another place. With its lock held.
 */
core_fn pay(struct task __arena *t in_arena)
{
	struct tree_node __arena *n = &t->member.node;
	u64 ns = __sync_lock_test_and_set(&t->owes_ns, 0);
	u64 vtime = node_vtime(n) + vtime_of_ns(ns, t->weight);
	u64 most = n->parent->vmin + vtime_of_ns(tunables.granularity_ns, t->weight);

	if (t->rides)
		t->rides_from_ns -= ns;
	if (!n->active && !in_domain(t) && vtime_before(node_vtime(n), most))
		node_set_vtime(n, vtime_before(vtime, most) ? vtime : most);
	return 0;
}

/* Whether the task has something to do with it, or had. */
static inline bool may_ride(const struct task_struct *p, const struct task __arena *t)
{
	return t->rides || t->blocked || is_waited_for(p);
}

/* Before a task that has just run is charged: rides that have ended without our being told. */
static inline void look_at_rides(const struct task_struct *p)
{
	struct task __arena *t = task_of(p);

	if (!t || !may_ride(p, t) || t->kernel_task != (u64)p)
		return;
	/* The kernel woke it without giving it to us. */
	if (t->blocked && is_queued(p))
		lend_end(t);
	ride_review(t);
}

/*
 * Nobody is to be left in groups that are about to go. Those that lend seats there have left them: who still rides there
 * is at the end of a long chain.
 */
static inline void evict_riders(struct group_set __arena *set)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS)
	{
		struct task __arena *t = find_task(p);
		struct lock __arena *l;
		unsigned long flags;

		if (!t || !t->rides || t->home != set)
			continue;
		bpf_local_irq_save(&flags);
		l = task_lock(t);
		if (t->rides && t->home == set)
			ride_leave(t);
		lock_release(l);
		bpf_local_irq_restore(&flags);
	}
	bpf_rcu_read_unlock();
}

#endif
