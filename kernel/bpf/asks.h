/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which groups' own functions are to be asked: something has happened in them since they last were. One list a shard, in the
 * order of the events; a function is asked by the next CPU of the shard that chooses (user.h).
 *
 * Every function here is called with the lock of the shard held.
 */
#ifndef CONSORT_ASKS_H
#define CONSORT_ASKS_H

#include "slots.h"

static inline bool is_user_function(const struct domain_set __arena *set)
{
	return set && set->function && set->function->kind == FUNCTION_USER;
}

static inline u8 __arena *asks_of(struct domain_set __arena *set, u32 shard)
{
	return &set->asks[shard < SHARDS_MAX ? shard : 0];
}

/* What the function has taken, on the shard's CPUs, that no member has paid yet. */
static inline u64 __arena *owes_ns_of(struct domain_set __arena *set, u32 shard)
{
	return &set->owes_ns[shard < SHARDS_MAX ? shard : 0];
}

/* Takes what the function of the task's group owes. Not inline: those that charge have no room for it on their stacks. */
__weak __noinline u64 function_owed_ns(struct task __arena *t in_arena)
{
	u64 __arena *owes_ns = owes_ns_of(t->set, shard_of_place(t->place));
	u64 owed_ns = *owes_ns;

	*owes_ns = 0;
	return owed_ns;
}

/* A member pays for a run, and for what its group's function has taken since the last one of any member. */
static inline u64 with_what_function_took_ns(struct task __arena *t, u64 ran_ns)
{
	return is_user_function(t->set) ? ran_ns + function_owed_ns(t) : ran_ns;
}

/* Something has happened to a member. With no room in the list its group has what it was last told until something else does. */
static inline void asks_note(struct task __arena *t)
{
	u32 shard = shard_of_place(t->place);
	struct shard __arena *s = shard_at(shard);
	struct domain_set __arena *set = t->set;
	u32 nr = s->nr_asks;

	if (!is_user_function(set))
		return;
	set->function->is_stale = 1;
	if (*asks_of(set, shard) || nr >= USER_ASKS)
		return;
	*asks_of(set, shard) = 1;
	s->asks[nr] = set->id;
	s->nr_asks = nr + 1;
}

/* Takes the first of the list out of it, unless that is `asked`; 0: it is empty, or begins with that. */
static inline u32 asks_take(struct shard __arena *s, u32 asked)
{
	u32 first = s->asks[0];

	if (!s->nr_asks || first == asked)
		return 0;
	s->nr_asks--;
	for (u32 i = hidden(0); i < s->nr_asks && i < USER_ASKS - 1 && can_loop; i = hidden(i + 1))
		s->asks[i] = s->asks[i + 1];
	return first;
}

/* Takes a group out of the list. */
static inline void asks_forget(struct shard __arena *s, u32 id)
{
	u32 nr = hidden(0);

	for (u32 i = hidden(0); i < s->nr_asks && i < USER_ASKS && can_loop; i = hidden(i + 1)) {
		u32 one = s->asks[i];

		if (one == id)
			continue;
		s->asks[nr] = one;
		nr = hidden(nr + 1);
	}
	s->nr_asks = nr;
}

#endif
