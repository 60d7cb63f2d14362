/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reservations: rates that have been promised, and the threads that use them.
 *
 * Problem  A promise must hold for a program as a whole, whatever threads and children it starts, and be taken back
 *          wherever they are.
 * Rule     A reservation is a group below its class, weighted by its nominal rate (core/class.h, core/decide/period.h). Its
 *          threads have it as their home instead of their cgroup's group; a thread that one of them forks shares it. Its
 *          end sends them all back to their cgroups.
 *          A member of a domain that has a reservation gives its domain a seat there (core/seat.h).
 */
#ifndef CONSORT_RESERVATIONS_H
#define CONSORT_RESERVATIONS_H

#include "classes.h"

static inline u64 reservation_bytes(void)
{
	return sizeof(struct reservation) + nr_places() * sizeof(struct group);
}

static inline bool is_reservable(const struct consort_reservation_args *args)
{
	return args->rate && args->rate <= CONSORT_RATE_ONE && args->period_ns &&
	       args->period_ns <= CONSORT_PERIOD_MAX_NS;
}

/* A reservation's rate and period, in all places; 0 and 0 if it is about to end. */
core_fn reservation_set(struct reservation __arena *r in_arena, u32 rate, u64 period_ns)
{
	u64 period_vtime = vtime_of_ns(period_ns, CONSORT_RATE_ONE);
	u64 turn_vtime = rate ? vtime_of_ns(tunables.min_slice_ns, rate) : 0;
	unsigned long flags;

	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		struct shard __arena *s = shard_at(shard_of_place(nth_place(i)));
		struct tree_node __arena *n = &group_in(&r->set, nth_place(i))->node;

		bpf_local_irq_save(&flags);
		lock_take(&s->lock);
		tree_set_promise(n, rate, period_vtime, turn_vtime);
		lock_release(&s->lock);
		bpf_local_irq_restore(&flags);
	}
	r->set.weight = rate;
	return 0;
}

/*
 * A reservation begins as if it had just had its turn: a user who gives one back and makes another again and again would else be
 * forgiven each time what it has had beyond its rate.
 */
static inline void reservation_begin_late(struct reservation __arena *r)
{
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		struct tree_node __arena *n = &group_in(&r->set, nth_place(i))->node;

		n->vtime += n->turn_vtime;
	}
}

call_fn consort_reservation_create(struct consort_reservation_args *args)
{
	USES_ARENA();
	struct class_set __arena *class = find_class(args->class);
	struct reservation __arena *r;
	u32 id;
	u64 at;

	args->error = !class ? ENOENT : !is_reservable(args) ? EINVAL : ENOSPC;
	if (args->error != ENOSPC)
		return 0;
	id = FREE_ID(&reservations, RESERVATIONS_MAX);
	if (id >= RESERVATIONS_MAX)
		return 0;
	args->error = ENOMEM;
	r = alloc_pages(reservation_bytes());
	if (!r)
		return 0;
	group_set_init(&r->set, 0, &class->set, 0);
	reservation_set(r, args->rate, args->period_ns);
	reservation_begin_late(r);
	r->id = id;
	r->class = class;
	class->nr_reservations++;
	at = (u64)r;
	bpf_map_update_elem(&reservations, &id, &at, BPF_ANY);
	args->reservation = id;
	args->error = 0;
	return 0;
}

/* Moves a group in one place; its members stay in it, whatever they do. */
core_fn group_move(struct place __arena *pl in_arena, struct group __arena *g in_arena,
		   struct group __arena *to in_arena)
{
	bool was_waiting = g->node.ready.queued, was_active = g->node.active;

	if (was_waiting)
		tree_dequeue(&g->node);
	if (was_active)
		tree_deactivate(&g->node);
	place_deactivated(pl);
	tree_load(g->node.parent, -g->load_above, -g->nr_loaded);
	tree_fly(g->node.parent, -g->in_flight_ns);
	tree_seat(g->node.parent, -g->nr_seats);
	tree_move(&g->node, to, tree_take_lead_ns(&g->node));
	tree_seat(to, g->nr_seats);
	tree_fly(to, g->in_flight_ns);
	tree_load(to, g->load_above, g->nr_loaded);
	if (was_active)
		tree_activate(&g->node, bpf_ktime_get_ns());
	place_activated(pl, &g->node);
	if (was_waiting)
		tree_enqueue(&g->node);
	return 0;
}

/* The same in all places. */
core_fn set_move(struct group_set __arena *set in_arena, struct group_set __arena *to in_arena)
{
	unsigned long flags;

	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(i);
		struct shard __arena *s = shard_at(shard_of_place(place));

		bpf_local_irq_save(&flags);
		lock_take(&s->lock);
		group_move(place_at(place), group_in(set, place), group_in(to, place));
		lock_release(&s->lock);
		bpf_local_irq_restore(&flags);
	}
	return 0;
}

static inline void reservation_move(struct reservation __arena *r, struct class_set __arena *to)
{
	set_move(&r->set, &to->set);
	r->class->nr_reservations--;
	to->nr_reservations++;
	r->class = to;
	r->set.parent = &to->set;
}

call_fn consort_reservation_change(struct consort_reservation_args *args)
{
	USES_ARENA();
	struct reservation __arena *r = find_reservation(args->reservation);
	struct class_set __arena *class = find_class(args->class);

	args->error = !r || !class ? ENOENT : !is_reservable(args) ? EINVAL : 0;
	if (args->error)
		return 0;
	if (r->class != class)
		reservation_move(r, class);
	reservation_set(r, args->rate, args->period_ns);
	return 0;
}

/* The task's lock is held. */
static inline void share_reservation(struct task __arena *t, struct reservation __arena *r)
{
	t->reservation = r;
	__sync_fetch_and_add(&r->nr_tasks, 1);
}

static inline void task_reserve(struct task __arena *t, struct reservation __arena *r)
{
	share_reservation(t, r);
	task_move(t, &r->set, t->set, t->place, t->demoted);
}

call_fn consort_reservation_add(struct consort_reservation_args *args)
{
	USES_ARENA();
	struct reservation __arena *r = find_reservation(args->reservation);
	struct held_task h;

	args->error = ENOENT;
	if (!r)
		return 0;
	args->error = task_hold(&h, args->tid, args->start_ticks, false);
	if (args->error)
		return 0;
	if (h.t->reservation)
		args->error = EEXIST;
	else
		task_reserve(h.t, r);
	task_let_go(&h);
	return 0;
}

/* The cgroup's groups, if it has its own and still is there. */
static inline struct group_set __arena *find_cgroup(u64 id)
{
	struct group_set __arena *set = find_group_set(id);

	return set != root_set && set->id == id ? set : NULL;
}

call_fn consort_reservation_adopt(struct consort_reservation_args *args)
{
	USES_ARENA();
	struct reservation __arena *r = find_reservation(args->reservation);
	struct group_set __arena *set = find_cgroup(args->cgroup);

	args->error = !r ? ENOENT : !set ? ESRCH : is_reserved(set) ? EBUSY : 0;
	if (args->error)
		return 0;
	set->reserved = 1;
	r->cgroup = args->cgroup;
	set_move(set, &r->set);
	return 0;
}

static inline void reservation_unadopt(struct reservation __arena *r)
{
	struct group_set __arena *set = find_cgroup(r->cgroup);

	r->cgroup = 0;
	if (!set)
		return;
	set_move(set, set->parent);
	set->reserved = 0;
}

/* The task's lock is held. */
static inline void reservation_forget(struct task __arena *t)
{
	__sync_fetch_and_add(&t->reservation->nr_tasks, -1);
	t->reservation = NULL;
	t->by_domain = 0;
}

/* The task goes back to its cgroup's group, and out of anybody else's seat. */
static inline void task_unreserve(struct task __arena *t, const struct task_struct *p,
				  struct reservation __arena *r)
{
	struct group_set __arena *home = cgroup_of(p);
	struct lock __arena *l;
	unsigned long flags;

	bpf_local_irq_save(&flags);
	l = task_lock(t);
	if (belongs_to(t, p)) {
		ride_leave(t);
		if (t->reservation == r) {
			reservation_forget(t);
			task_move(t, t->away ? root_set : home, t->set, t->place, t->demoted);
		}
	}
	lock_release(l);
	if (t->blocked)
		lend_on(t, t);
	bpf_local_irq_restore(&flags);
}

static inline void unreserve_all(struct reservation __arena *r)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(task, p, NULL, BPF_TASK_ITER_ALL_THREADS)
	{
		struct task __arena *t = find_anywhere(p);

		if (t && (t->reservation == r || own_reservation(t) == r))
			task_unreserve(t, p, r);
	}
	bpf_rcu_read_unlock();
}

call_fn consort_reservation_end(struct consort_reservation_args *args)
{
	USES_ARENA();
	u32 id = args->reservation;
	struct reservation __arena *r = find_reservation(id);
	u64 none = 0;

	args->error = ENOENT;
	if (!r)
		return 0;
	args->error = EBUSY;
	if (r->nr_domains)
		return 0;
	if (r->nr_tasks || r->set.nr_riders)
		unreserve_all(r);
	if (r->cgroup)
		reservation_unadopt(r);
	args->error = EAGAIN;
	if (r->nr_tasks || r->set.nr_riders)
		return 0;
	bpf_map_update_elem(&reservations, &id, &none, BPF_ANY);
	reservation_set(r, 0, 0);
	r->class->nr_reservations--;
	set_end_flights(&r->set);
	free_pages(r, reservation_bytes());
	args->error = 0;
	return 0;
}

/* What its members have had in all places, since it was made: as threads, as members of domains, in its cgroup. */
static inline u64 reservation_ran_ns(struct reservation __arena *r)
{
	u64 ran_ns = 0;

	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1))
		ran_ns += group_in(&r->set, nth_place(i))->ran_ns;
	return ran_ns;
}

call_fn consort_reservation_usage(struct consort_reservation_args *args)
{
	USES_ARENA();
	struct reservation __arena *r = find_reservation(args->reservation);

	args->error = r ? 0 : ENOENT;
	if (r) {
		args->tasks = r->cgroup ? !!find_cgroup(r->cgroup) : r->nr_tasks;
		args->ran_ns = reservation_ran_ns(r);
	}
	return 0;
}

/*
 * A thread that was just forked shares its maker's reservation, but not one that its maker has as a member of a domain. Its
 * maker's lock is held meanwhile, so that nobody slips into a reservation that ends.
 */
static inline void inherit_reservation(struct task __arena *t, const struct task_struct *p)
{
	struct task_struct *maker = bpf_get_current_task_btf();
	struct task __arena *m = find_anywhere(maker);
	struct reservation __arena *r;
	unsigned long flags;
	struct lock __arena *l;

	if (!m || !own_reservation(m) || p->se.sum_exec_runtime ||
	    (p->real_parent != maker && p->tgid != maker->tgid))
		return;
	bpf_local_irq_save(&flags);
	l = task_lock(m);
	r = m->by_domain ? NULL : own_reservation(m);
	if (r) {
		share_reservation(t, r);
		t->home = &r->set;
		tree_move(&t->member.node, group_in(t->home, t->place), 0);
	}
	lock_release(l);
	bpf_local_irq_restore(&flags);
}

#endif
