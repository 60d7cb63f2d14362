/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Membership: joining and leaving a domain, sleeping inside and outside of poll.
 *
 * The daemon decides who may join what and calls the syscall programs here; nothing else changes membership.
 */
#ifndef CONSORT_MEMBERS_H
#define CONSORT_MEMBERS_H

#include "away.h"
#include "inherit.h"
#include "memory.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DOMAINS_MAX);
	__type(key, u32);
	__type(value, u64); /* the domain's struct domain_set; 0: none */
} domain_sets SEC(".maps");

/* A task that is ours, by its thread's id, and its lock. */
struct held_task {
	struct task_struct *p;
	struct task __arena *t;
	struct lock __arena *l;
	unsigned long flags;
};

static inline void task_let_go(struct held_task *h)
{
	lock_release(h->l);
	if (h->t->blocked)
		lend_on(h->t, h->t);
	bpf_local_irq_restore(&h->flags);
	bpf_task_release(h->p);
}

/*
 * Whether the thread is the one that the daemon has looked at, and not another one that has got its number meanwhile: as
 * /proc tells when it started, in clock ticks after boot. 0: whoever has the number.
 */
static inline bool started_at(const struct task_struct *p, u64 start_ticks)
{
	return !start_ticks || p->start_boottime / CLOCK_TICK_NS == start_ticks;
}

/*
 * For programs that the daemon calls. Returns an errno: 0, or ESRCH if there is no such task among ours; those that are
 * away count if `or_away`.
 */
static __always_inline u32 task_hold(struct held_task *h, s32 tid, u64 start_ticks, bool or_away)
{
	h->p = bpf_task_from_pid(tid);
	if (!h->p)
		return ESRCH;
	h->t = !started_at(h->p, start_ticks) ? NULL :
	       or_away			      ? find_anywhere(h->p) :
						find_task(h->p);
	if (!h->t) {
		bpf_task_release(h->p);
		return ESRCH;
	}
	bpf_local_irq_save(&h->flags);
	h->l = task_lock(h->t);
	if (h->t->kernel_task == (u64)h->p || (or_away && belongs_to(h->t, h->p))) {
		ride_leave(h->t);
		return 0;
	}
	task_let_go(h);
	return ESRCH;
}

/* All but the seat that it has to give: that may be another one's than it brought, and what it brought another one's. */
static inline void task_clear(struct task __arena *t)
{
	typedef u64 __attribute__((may_alias)) word_t;
	struct seat __arena *spare = t->member.spare;
	word_t __arena *word = (word_t __arena *)t;

	for (u32 i = 0; i < __builtin_offsetof(struct task, brought) / sizeof(u64) && can_loop; i++)
		word[i] = 0;
	t->member.spare = spare;
}

/* The nice value has changed: the task comes back, to wherever it was, with its new weight. */
static inline void task_set_weight(struct task __arena *t, u64 weight)
{
	if (t->rides) {
		t->own.weight = weight;
		return;
	}
	t->weight = weight;
	task_move(t, t->home, t->set, t->place, t->demoted);
}

/* Leaves the domain; the caller holds the task's lock. */
static inline void member_leave(struct task __arena *t)
{
	struct domain_set __arena *set = t->set;
	struct consort_slot *s = slot_of(t);
	u64 clock = domain_clock(domain_in(set, t->place)), debt = t->member.debt_vtime;

	t->member.debt_lead = vtime_before(clock, debt) ? debt - clock : 0;
	if (s)
		s->standing = CONSORT_OUTSIDE;
	task_move(t, t->home, NULL, t->place, 0);
	__sync_fetch_and_add(&set->nr_members, -1);
}

/* A member goes to sleep: inside poll until its due time, or outside, against the contract. */
static inline void member_sleeps(struct task __arena *t, u64 now_ns)
{
	struct consort_slot *s = slot_of(t);
	u32 cpu = bpf_get_smp_processor_id(), seq;
	struct domain __arena *d;

	if (!s)
		return;
	seq = *(volatile u32 *)&s->poll_seq;
	if (*(volatile u32 *)&s->intent != CONSORT_SLEEPING || seq == t->poll_seq) {
		if (!t->demoted) {
			count_on(cpu)->blocks++;
			slot_write_why(t, s, CONSORT_WHY_SLEPT, 0);
			task_set_demoted(t, 1);
		}
		return;
	}
	t->poll_seq = seq;
	t->is_new = 0;
	count_on(cpu)->sleeps++;
	if (t->demoted && now_ns < t->yield_by_ns) {
		count_on(cpu)->restorations++;
		task_set_demoted(t, 0);
	}
	slot_read(t, s, cpu, now_ns);
	if (t->demoted)
		return;
	d = domain_in(t->set, t->place);
	domain_sleep(d, &t->member);
	place_refresh(place_at(t->place), d);
}

static inline struct domain_set __arena *find_domain_set(u32 domain)
{
	u64 *at = bpf_map_lookup_elem(&domain_sets, &domain);

	return at ? (struct domain_set __arena *)*at : NULL;
}

static inline void domain_set_init(struct domain_set __arena *set, u32 id,
				   const struct consort_domain_args *args)
{
	u64 grace_ns = args->event_ns ?: CONSORT_EVENT_MAX_NS;

	if (grace_ns > CONSORT_EVENT_MAX_NS)
		grace_ns = CONSORT_EVENT_MAX_NS;
	/* An event that began just in time, and was interrupted as events are, is no offence. */
	grace_ns += grace_ns / 8;
	set->id = id;
	set->nr_members = 0;
	set->order = args->order;
	set->flags = args->flags;
	set->grace_ns = grace_ns;
	for (u32 i = 0; i < nr_places() && can_loop; i++) {
		u32 place = nth_place(i);
		struct domain __arena *d = domain_in(set, place);

		d->group.node.kind = NODE_COOP;
		/* So that its clock wraps early, if ever: what is wrong then is seen. */
		d->group.node.vtime = place_at(place)->root.vmin;
		d->order = args->order;
		d->preempt = !!(args->flags & CONSORT_JOIN_PREEMPT);
		d->grace_ns = grace_ns;
	}
}

/*
 * A number, of those below `ids`, under which a map of addresses has nothing; `ids` if there is none. A macro, as the
 * simulator knows a map by its type.
 */
#define FREE_ID(map, ids)                                              \
	({                                                             \
		u32 ___id = hidden(1);                                 \
                                                                       \
		while (___id < (ids) && can_loop) {                    \
			u64 *___at = bpf_map_lookup_elem(map, &___id); \
                                                                       \
			if (!___at || !*___at)                         \
				break;                                 \
			___id = hidden(___id + 1);                     \
		}                                                      \
		___id;                                                 \
	})

SEC("syscall")
int consort_domain_create(struct consort_domain_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set;
	u32 id = FREE_ID(&domain_sets, DOMAINS_MAX);
	u64 at;

	args->error = ENOSPC;
	if (id >= DOMAINS_MAX)
		return 0;
	args->error = ENOMEM;
	set = alloc_pages(domain_set_bytes());
	if (!set)
		return 0;
	domain_set_init(set, id, args);
	at = (u64)set;
	bpf_map_update_elem(&domain_sets, &id, &at, BPF_ANY);
	args->domain = id;
	args->error = 0;
	return 0;
}

SEC("syscall")
int consort_domain_destroy(struct consort_domain_args *args)
{
	USES_ARENA();
	u32 id = args->domain;
	struct domain_set __arena *set = find_domain_set(id);
	u64 none = 0;

	if (!set) {
		args->error = ENOENT;
		return 0;
	}
	if (set->nr_members) {
		args->error = EBUSY;
		return 0;
	}
	bpf_map_update_elem(&domain_sets, &id, &none, BPF_ANY);
	free_pages(set, domain_set_bytes());
	args->error = 0;
	return 0;
}

/*
 * A new member is due at once: it has published nothing yet, and must run to do so. Its first poll is to come within
 * the domain's grace.
 */
static inline void member_join(struct task __arena *t, struct domain_set __arena *set,
			       const struct consort_join_args *args, u64 now_ns)
{
	struct consort_slot *s;

	t->client = args->client;
	t->slot = args->slot;
	s = slot_of(t);
	t->poll_seq = s ? *(volatile u32 *)&s->poll_seq : 0;
	t->is_new = 1;
	t->resumes = 0;
	t->yield_by_ns = NEVER_NS;
	t->member.due_ns = now_ns;
	t->member.run_due_ns = now_ns;
	t->member.priority = PRIORITY_NONE;
	t->member.key = 0;
	t->member.served = domain_in(set, t->place)->served_least;
	t->member.debt_vtime = domain_clock(domain_in(set, t->place)) + t->member.debt_lead;
	t->member.turn_ns = now_ns;
	task_move(t, t->home, set, t->place, 0);
	t->member.turn_vtime = t->member.node.vtime;
	if (s) {
		s->yield_by_ns = NEVER_NS;
		s->standing = CONSORT_MEMBER;
	}
	__sync_fetch_and_add(&set->nr_members, 1);
}

SEC("syscall")
int consort_join(struct consort_join_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set = find_domain_set(args->domain);
	struct held_task h;

	args->error = ENOENT;
	if (!set)
		return 0;
	args->error = EINVAL;
	if (args->client >= CLIENTS_MAX || args->slot >= CONSORT_SLOTS)
		return 0;
	args->error = task_hold(&h, args->tid, args->start_ticks, false);
	if (args->error)
		return 0;
	if (h.t->set)
		args->error = EEXIST;
	else
		member_join(h.t, set, args, bpf_ktime_get_ns());
	task_let_go(&h);
	return 0;
}

SEC("syscall")
int consort_leave(struct consort_leave_args *args)
{
	USES_ARENA();
	struct held_task h;

	args->error = task_hold(&h, args->tid, 0, true);
	if (args->error)
		return 0;
	if (h.t->set && h.t->client == args->client)
		member_leave(h.t);
	else
		args->error = ENOENT;
	task_let_go(&h);
	return 0;
}

#endif
