/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Domains, and what becomes of their members: they sleep inside and outside of poll, and leave.
 *
 * The daemon decides who may join what and calls what is here and in join.h; nothing else changes membership.
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RESERVATIONS_MAX);
	__type(key, u32);
	__type(value, u64); /* the struct reservation; 0: none */
} reservations SEC(".maps");

static inline struct reservation __arena *find_reservation(u32 id)
{
	u64 *at = bpf_map_lookup_elem(&reservations, &id);

	return at ? (struct reservation __arena *)*at : NULL;
}

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

	for (u32 i = hidden(0);
	     i < __builtin_offsetof(struct task, brought) / sizeof(u64) && can_loop;
	     i = hidden(i + 1))
		word[i] = 0;
	t->member.spare = spare;
}

/* The nice value has changed: the task comes back, to wherever it was, with its new weight. */
static inline void task_set_weight(struct task __arena *t, u64 weight)
{
	if (t->rides) {
		t->own_weight = weight;
		return;
	}
	/* The kernel tells it with each change of policy, too. */
	if (t->weight == weight)
		return;
	t->weight = weight;
	task_move(t, t->home, t->set, t->place, t->demoted);
}

/* Leaves the domain, for a home; the caller holds the task's lock. */
static inline void member_leave(struct task __arena *t, struct group_set __arena *home)
{
	struct domain_set __arena *set = t->set;
	struct consort_slot *s = slot_of(t);
	u64 clock = domain_clock(domain_in(set, t->place)), debt = t->member.debt_vtime;

	role_detach(t);
	t->member.debt_lead = vtime_before(clock, debt) ? debt - clock : 0;
	if (s)
		s->standing = CONSORT_OUTSIDE;
	task_move(t, home, NULL, t->place, 0);
	__sync_fetch_and_add(&set->nr_members, -1);
}

/* A member goes to sleep: inside poll until its due time, or outside, against the contract. */
static inline void member_sleeps(struct task __arena *t, u64 now_ns)
{
	struct consort_slot *s = slot_of(t);
	u32 cpu = bpf_get_smp_processor_id(), seq;
	struct domain __arena *d;

	if (!s) {
		if (has_function(t))
			role_sleeps(t, now_ns);
		return;
	}
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
	t->resumes = 0;
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

/* How the members of a domain are ordered, and that of a group with a function. */
static inline u32 order_of(const struct consort_domain_args *args)
{
	if (!args->function)
		return args->order;
	return args->function == CONSORT_FUNCTION_FAIR ? ORDER_SERVICE : ORDER_FUNCTION;
}

static inline void domain_set_init(struct domain_set __arena *set, u32 id,
				   const struct consort_domain_args *args,
				   struct function __arena *function)
{
	u64 grace_ns = args->event_ns ?: CONSORT_EVENT_MAX_NS;

	if (grace_ns > CONSORT_EVENT_MAX_NS)
		grace_ns = CONSORT_EVENT_MAX_NS;
	/* An event that began just in time, and was interrupted as events are, is no offence. */
	grace_ns += grace_ns / 8;
	set->id = id;
	set->nr_members = 0;
	set->order = order_of(args);
	set->flags = args->flags;
	set->grace_ns = grace_ns;
	set->function = function;
	for (u32 i = hidden(0); i < nr_places() && can_loop; i = hidden(i + 1)) {
		u32 place = nth_place(i);
		struct domain __arena *d = domain_in(set, place);

		d->group.node.kind = NODE_COOP;
		/* So that its clock wraps early, if ever: what is wrong then is seen. */
		d->group.node.vtime = place_at(place)->root.vmin;
		d->order = set->order;
		d->preempt = function || args->flags & CONSORT_JOIN_PREEMPT;
		d->grace_ns = grace_ns;
		d->function = function;
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

static inline struct function __arena *function_create(u32 kind, u32 user, u32 group)
{
	struct function __arena *f = alloc_pages(sizeof(struct function));

	if (!f)
		return NULL;
	f->kind = kind;
	f->group = group;
	f->zero_ns = NEVER_NS;
	f->is_booted = 1;
	f->ask_at_ns = NEVER_NS;
	user_begin(f, user);
	for (u32 i = hidden(0); i < ROLES_MAX && can_loop; i = hidden(i + 1)) {
		struct role __arena *r = &f->roles[i];

		r->function = f;
		r->number = i;
		r->from_ns = NEVER_NS;
		r->rank = PIPELINE_REST + i;
		r->key = USER_NO_KEY;
	}
	return f;
}

static inline void plan_free(struct plan __arena *p)
{
	if (p)
		free_pages(p, plan_bytes(p->nr_all));
}

static inline void function_free(struct function __arena *f)
{
	if (!f)
		return;
	for (u32 i = hidden(0); i < ROLES_MAX && can_loop; i = hidden(i + 1))
		plan_free(f->roles[i].plan);
	plan_free(f->staged);
	free_pages(f, sizeof(struct function));
}

u64 births; /* of domains and groups */

static inline void users_forget(u32 id);

call_fn consort_domain_create(struct consort_domain_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set;
	struct reservation __arena *r = NULL;
	struct function __arena *function = NULL;
	u32 id;
	u64 at;

	args->error = EINVAL;
	if (args->function > CONSORT_FUNCTION_USER || args->user >= CONSORT_USER_FUNCTIONS)
		return 0;
	args->error = ENOENT;
	if (args->reservation) {
		r = find_reservation(args->reservation);
		if (!r)
			return 0;
	}
	id = FREE_ID(&domain_sets, DOMAINS_MAX);
	args->error = ENOSPC;
	if (id >= DOMAINS_MAX)
		return 0;
	args->error = ENOMEM;
	if (args->function) {
		function = function_create(args->function, args->user, id);
		if (!function)
			return 0;
	}
	set = alloc_pages(domain_set_bytes());
	if (!set) {
		function_free(function);
		return 0;
	}
	domain_set_init(set, id, args, function);
	set->birth = ++births;
	set->reservation = r;
	if (r)
		r->nr_domains++;
	at = (u64)set;
	bpf_map_update_elem(&domain_sets, &id, &at, BPF_ANY);
	args->domain = id;
	args->error = 0;
	return 0;
}

call_fn consort_domain_destroy(struct consort_domain_args *args)
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
	if (is_user_function(set))
		users_forget(id);
	if (set->reservation)
		set->reservation->nr_domains--;
	function_free(set->function);
	free_pages(set, domain_set_bytes());
	args->error = 0;
	return 0;
}

#endif
