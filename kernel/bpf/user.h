/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Asking the functions of users' own (core/function/user.h).
 *
 * Problem  A user's function is a program of its own, which may be exchanged at any time, and must get at nothing.
 * Rule     It is called by a tail call, of which the kernel allows no other form: near the beginning of a choice, with no lock
 *          held. It sees a copy of what its group knows, in a map in which each CPU has a place; its answer is read from
 *          there, and published under the lock. The group may be gone by then: it has a number, and a birth.
 * Bound    At most ASKS_A_CHOICE functions are asked in a choice; the others by the next ones.
 * Limits   A program array serves one callback: a thread that wakes on an idle CPU runs before its function is asked.
 */
#ifndef CONSORT_USER_H
#define CONSORT_USER_H

#include "members.h"

#define ASKS_A_CHOICE 2

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, CONSORT_USER_FUNCTIONS);
	__type(key, u32);
	__type(value, u32);
} df_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct consort_df_record);
} df_records SEC(".maps");

_Static_assert(DF_MEMBERS == ROLES_MAX && DF_VARIABLES == ROLE_VARIABLES &&
		       DF_MEMORY == USER_MEMORY && DF_KEY_MAX + 1 == USER_KEYLESS &&
		       DF_NO_OPINION == USER_NO_KEY,
	       "a function sees all that there is");
_Static_assert(sizeof(struct consort_df_record) == CONSORT_DF_ROOM &&
		       sizeof(((struct consort_df_record *)0)->room) % sizeof(u64) == 0,
	       "the room is what is left");

static inline struct df_member *record_member(struct consort_df_record *rec, u32 i)
{
	/* Keeps the compiler from proving the mask needless: the verifier cannot follow its proof. */
	asm volatile("" : "+r"(i));
	return &rec->group.member[i & (DF_MEMBERS - 1)];
}

static inline u64 record_key_of(struct consort_df_record *rec, u32 i)
{
	asm volatile("" : "+r"(i));
	return rec->keys[i & (DF_MEMBERS - 1)];
}

/* What the function is to know of a role. */
core_fn user_show_role(struct role __arena *r in_arena, u32 cpu, u64 now_ns)
{
	struct consort_df_record *rec = bpf_map_lookup_elem(&df_records, &cpu);
	struct consort_variables *v = r->client ? variables_of(r) : NULL;
	struct member __arena *m = r->member;
	struct df_member *to;

	USES_ARENA();
	if (!rec)
		return 0;
	to = record_member(rec, r->number);
	to->due_ns = role_due_ns(r, now_ns);
	to->awake_ns = r->awake_ns;
	to->ran_ns = r->ran_ns;
	to->period_ns = r->period_ns;
	to->budget_ns = r->budget_ns;
	to->flags = 0;
	to->weight = 0;
	for (u32 i = 0; i < DF_VARIABLES; i++) {
		if (v)
			r->state[i] = *(volatile s64 *)&v->state[i];
		to->state[i] = r->state[i];
		to->control[i] = r->control[i];
	}
	if (!m)
		return 0;
	to->flags = DF_PLAYED;
	to->weight = m->node.weight;
	if (m->node.active) {
		const struct task __arena *t = player_of(r);
		const struct consort_cpu __arena *c = cpu_at(t->cpu);

		to->flags |= DF_WANTS;
		if (c->running == t) {
			to->flags |= DF_RUNS;
			to->ran_ns += now_ns - c->since_ns;
		}
	}
	return 0;
}

/* Of another group's answer, which has been here, nothing is left. The function reaches all of the record. */
static inline void user_clean(struct consort_df_record *rec)
{
	volatile u64 *room = (volatile u64 *)rec->room;

	rec->answer = CONSORT_DF_NONE;
	for (u32 i = 0; i < DF_MEMBERS; i++)
		*(volatile u64 *)&rec->keys[i] = 0;
	for (u32 i = 0; i < sizeof(rec->room) / sizeof(u64); i++)
		room[i] = 0;
}

/* All that the function is to know. Of members that are not, of this group or of another one that was here, nothing is left. */
core_fn user_show(struct domain_set __arena *set in_arena, u32 cpu, u32 by, u64 now_ns)
{
	struct consort_df_record *rec = bpf_map_lookup_elem(&df_records, &cpu);
	struct function __arena *f = set->function;
	u32 nr = f->nr_roles < ROLES_MAX ? f->nr_roles : ROLES_MAX, before;

	USES_ARENA();
	if (!rec)
		return 0;
	before = cpu_at(cpu)->asks_nr;
	cpu_at(cpu)->asks_nr = nr;
	user_shown(f);
	rec->group.nr = nr;
	rec->group.by = by;
	rec->group.now_ns = now_ns;
	rec->group.ask_after_ns = 0;
	user_clean(rec);
	for (u32 i = 0; i < DF_MEMORY; i++)
		rec->group.memory[i] = f->memory[i];
	for (u32 i = hidden(0); i < nr && can_loop; i = hidden(i + 1))
		user_show_role(role_at(f, i), cpu, now_ns);
	for (u32 i = hidden(nr); i < before && i < ROLES_MAX && can_loop; i = hidden(i + 1)) {
		struct df_member *to = record_member(rec, i);

		for (u32 word = 0; word < sizeof(*to) / sizeof(u64); word++)
			((volatile u64 *)to)[word] = 0;
	}
	return 0;
}

/* Which group's function a CPU asks next: that of `t`, which has run here, or the first of the list. NULL: nobody's. */
static inline struct domain_set __arena *asks_next(struct consort_cpu __arena *c,
						   struct shard __arena *s, struct task __arena *t)
{
	struct domain_set __arena *set;
	u32 asked = c->asks, id;

	if (t && in_domain(t) && shard_at(shard_of_place(t->place)) == s &&
	    is_user_function(t->set)) {
		/* What was to be asked about it is asked now. */
		if (*asks_of(t->set, c->shard)) {
			*asks_of(t->set, c->shard) = 0;
			asks_forget(s, t->set->id);
		}
		return t->set;
	}
	while (can_loop) {
		/* Something has happened since it was asked: that is for the next choice. */
		id = asks_take(s, asked);
		if (!id)
			return NULL;
		set = find_domain_set(id);
		if (!is_user_function(set))
			continue;
		*asks_of(set, c->shard) = 0;
		if (!set->function->is_off)
			return set;
	}
	return NULL;
}

/* Shows the next function what it is to know. Returns 1 + its number; 0: there is none. */
core_fn user_next(u32 cpu, struct task __arena *t in_arena, u64 now_ns)
{
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *s = shard_at(c->shard);
	struct domain_set __arena *set;
	struct role __arena *r;
	u32 user = 0;

	USES_ARENA();
	lock_take(&s->lock);
	set = asks_next(c, s, t);
	c->asks = 0;
	if (set) {
		/* Another group's function may have written behind its own members. */
		if (c->asks_birth != set->birth)
			c->asks_nr = ROLES_MAX;
		c->asks = set->id;
		c->asks_birth = set->birth;
		r = t && t->set == set ? t->member.role : NULL;
		if (!set->function->is_off) {
			user_show(set, cpu, r ? r->number : DF_NOBODY, now_ns);
			user = 1 + set->function->user;
		}
	}
	lock_release(&s->lock);
	return user;
}

/* What the function has said of a role: its key, and what its thread is told. Returns whether it was wrong. */
core_fn user_hear_role(struct role __arena *r in_arena, u32 cpu, u32 shard, u64 now_ns)
{
	struct consort_df_record *rec = bpf_map_lookup_elem(&df_records, &cpu);
	struct member __arena *m = r->member;
	u64 before = r->key, key = USER_NO_KEY;
	struct df_member *from;
	int wrong;

	USES_ARENA();
	if (!rec)
		return 0;
	from = record_member(rec, r->number);
	if (rec->answer == CONSORT_DF_KEYS)
		key = record_key_of(rec, r->number);
	else if (rec->answer == CONSORT_DF_PICK && (u32)rec->keys[0] == r->number)
		key = 0;
	wrong = !user_give_key(r, key);
	/* Who is picked is to want the CPU. */
	if (rec->answer == CONSORT_DF_PICK && !key && (!m || !m->node.active))
		wrong = 1;
	if (rec->answer != CONSORT_DF_NONE)
		for (u32 i = 0; i < DF_VARIABLES; i++)
			r->control[i] = from->control[i];
	if (r->key != before && m && (one_cpu || shard_of_place(player_of(r)->place) == shard))
		role_renew(player_of(r), now_ns);
	return wrong;
}

/* The function that the CPU has asked has answered, or not: what it said is published. */
core_fn user_hear(u32 cpu, u64 took_ns, u64 now_ns)
{
	struct consort_df_record *rec = bpf_map_lookup_elem(&df_records, &cpu);
	struct consort_cpu __arena *c = cpu_at(cpu);
	struct shard __arena *s = shard_at(c->shard);
	struct domain_set __arena *set;
	struct function __arena *f;
	int wrong = 0;

	USES_ARENA();
	if (!rec)
		return 0;
	lock_take(&s->lock);
	set = find_domain_set(c->asks);
	if (is_user_function(set) && set->birth == c->asks_birth) {
		f = set->function;
		f->asked++;
		if (rec->answer == CONSORT_DF_NONE)
			f->missing++;
		/* The first key is a number, or negative. */
		if (rec->answer == CONSORT_DF_PICK && (s64)rec->keys[0] >= (s64)f->nr_roles)
			wrong = 1;
		if (rec->answer == CONSORT_DF_PICK && (wrong || (s64)rec->keys[0] < 0))
			rec->keys[0] = DF_NOBODY;
		for (u32 i = hidden(0); i < f->nr_roles && i < ROLES_MAX && can_loop;
		     i = hidden(i + 1))
			wrong |= user_hear_role(role_at(f, i), cpu, c->shard, now_ns);
		f->corrected += !!wrong;
		if (rec->answer != CONSORT_DF_NONE)
			for (u32 i = 0; i < DF_MEMORY; i++)
				f->memory[i] = rec->group.memory[i];
		*owes_ns_of(set, c->shard) += took_ns;
		user_answered(f, took_ns, rec->answer ? rec->group.ask_after_ns : 0, now_ns);
		/* Who is off says nothing any more. */
		if (f->is_off)
			for (u32 i = hidden(0); i < ROLES_MAX && can_loop; i = hidden(i + 1))
				role_at(f, i)->key = USER_NO_KEY;
	}
	lock_release(&s->lock);
	return 0;
}

/* Runs a function that a user has brought along, if there is one of that number: what it says is in the CPU's record. */
__weak __noinline int user_call(u64 *ctx __arg_ctx, u32 user)
{
	/* Else the compiler takes for what it returns what it returns without a call. */
	volatile int none = 1;

	bpf_tail_call(ctx, &df_programs, user);
	return none;
}

/*
 * Asks those functions that are to be asked before this CPU chooses. `t` has run until now; NULL: nobody has. Returns what
 * time it is afterwards.
 */
__weak __noinline u64 users_ask(u64 *ctx __arg_ctx, u32 cpu, struct task __arena *t in_arena,
				u64 now_ns)
{
	USES_ARENA();
	cpu_at(cpu)->asks = 0;
	cpu_at(cpu)->asked_ns = 0;
	for (u32 turn = 0; turn < ASKS_A_CHOICE; turn++) {
		u64 began_ns = now_ns;
		u32 user;

		/* That of `t` may be all: a look without the lock, as before the first. */
		if (turn && !shard_at(cpu_at(cpu)->shard)->nr_asks)
			break;
		user = user_next(cpu, turn ? NULL : t, began_ns);
		if (!user) {
			if (turn)
				break;
			continue;
		}
		user_call(ctx, user - 1);
		now_ns = bpf_ktime_get_ns();
		user_hear(cpu, now_ns - began_ns, now_ns);
		cpu_at(cpu)->asked_ns += now_ns - began_ns;
	}
	return now_ns;
}

/*
 * The kernel counts as the next task's run what functions took before it was chosen: their groups pay that. One that has never
 * run is to stay recognizable as such.
 */
static inline void pay_back_asked(struct consort_cpu __arena *c, struct task __arena *next)
{
	if (next->charged_ns)
		next->charged_ns += c->asked_ns;
	c->asked_ns = 0;
}

/* Whether there is a function to be asked: a look without the lock. */
static inline bool users_are_to_be_asked(const struct shard __arena *s, const struct task __arena *t)
{
	return s->nr_asks || (t && is_user_function(t->set));
}

/*
 * No CPU is to ask a group's function any more, or hear its answer: nobody finds the group by its number now, and those who
 * have found it hold their shard's lock.
 */
static inline void users_forget(u32 id)
{
	unsigned long flags;

	for (u32 i = hidden(0); i < topology.nr_shards && can_loop; i = hidden(i + 1)) {
		struct shard __arena *s = shard_at(i);

		bpf_local_irq_save(&flags);
		lock_take(&s->lock);
		asks_forget(s, id);
		lock_release(&s->lock);
		bpf_local_irq_restore(&flags);
	}
}

call_fn consort_user(struct consort_user_args *args)
{
	USES_ARENA();
	struct domain_set __arena *set = find_domain_set(args->domain);
	struct function __arena *f;

	args->error = ENOENT;
	if (!is_user_function(set))
		return 0;
	f = set->function;
	args->error = EINVAL;
	if (args->operation == CONSORT_USER_SET) {
		if (args->user >= CONSORT_USER_FUNCTIONS)
			return 0;
		user_begin(f, args->user);
	}
	args->error = 0;
	args->user = f->user;
	args->asked = f->asked;
	args->corrected = f->corrected;
	args->missing = f->missing;
	args->slow = f->slow;
	args->took_max_ns = f->took_max_ns;
	args->is_off = f->is_off;
	return 0;
}

#endif
