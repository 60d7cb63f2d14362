/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Alone: what a CPU does without its shard's lock, because nobody waits for it.
 *
 * Problem  Tasks that yield or sleep beside nobody make their CPU choose hundreds of thousands of times a second, each time
 *          among nobody, with a lock held that all other CPUs of the cache need.
 * Rule     A running task that asks for a choice before it is to be compared goes on if nobody waits in any of its CPU's
 *          places: it is charged when it next is. A CPU whose task sleeps, and has been charged when it fell asleep, says that
 *          it has found no work, and looks once more whether somebody waits: whoever begins to wait looks for such CPUs
 *          afterwards, so one of the two sees the other (idle.h).
 * Bound    None is needed: a choice among nobody has no other outcome.
 * Limits   Members of domains say what they want at each choice, and so have one; tasks whose cgroup has a limit give back what they
 *          have not used.
 *
 * Functions here are called without the shard's lock, by the CPU itself, which holds its run queue's.
 */
#ifndef CONSORT_ALONE_H
#define CONSORT_ALONE_H

#include "idle.h"
#include "inherit.h"

/* Those that wait are in this list, also while a thief looks at them. */
static inline bool waits_in(const struct place __arena *pl)
{
	return *(void *const volatile __arena *)&pl->waiters.first;
}

/* Whether somebody waits in a place from which the CPU chooses. */
core_fn somebody_waits_for(struct consort_cpu __arena *c in_arena, u32 cpu)
{
	struct shard __arena *s = shard_at(c->shard);

	USES_ARENA();
	if (waits_in(&s->place) || waits_in(&c->place))
		return 1;
	for (u32 i = hidden(1); s->nr_in_subsets && i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		struct place __arena *pl = beside(c, cpu, i);

		if (pl && waits_in(pl))
			return 1;
	}
	return 0;
}

/* Whether the task that has run goes on. */
static inline bool goes_on_alone(struct consort_cpu __arena *c, u32 cpu,
				 const struct task_struct *prev, u64 now_ns)
{
	struct task __arena *t = task_of(prev);

	return t && c->running == t && !t->set && is_queued(prev) && now_ns < c->compare_at_ns &&
	       !(nr_limits && is_limited(t->home)) && !c->told && !c->left &&
	       !somebody_waits_for(c, cpu);
}

/*
 * Before a task sleeps: it is charged while its load still counts, so that its CPU need not do so, nor count that load anew. With
 * the shard's lock held.
 */
static inline void charge_sleeper(struct task __arena *t)
{
	if (!t->set && cpu_at(t->cpu)->running == t)
		charge_until_now(t);
}

/* Whether the CPU, whose task `prev` sleeps if there is one, has nothing to run. Then others know. */
static inline bool idles_alone(struct consort_cpu __arena *c, u32 cpu,
			       const struct task_struct *prev)
{
	const struct task __arena *t = prev ? task_of(prev) : NULL;

	if (c->running || c->told || c->left || c->flight_ns)
		return false;
	if (prev && (!t || t->set || t->granted_ns || is_queued(prev) ||
		     (s64)(prev->se.sum_exec_runtime - t->charged_ns) > CHARGED_NS))
		return false;
	if (somebody_waits_for(c, cpu))
		return false;
	c->compare_at_ns = NEVER_NS;
	set_workless(cpu);
	return !somebody_waits_for(c, cpu) && !c->told;
}

#endif
