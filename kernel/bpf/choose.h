/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A CPU's choice of its next task: the task that ran is charged, the CPU's places are compared, the one chosen is handed
 * to the kernel. Every function here is called with the shard's lock held.
 */
#ifndef CONSORT_CHOOSE_H
#define CONSORT_CHOOSE_H

#include "custody.h"
#include "hot.h"
#include "message.h"
#include "way.h"

/* What the task that just ran has done about its contract. */
static inline void look_at_contract(struct task __arena *t, u64 total_ns,
				    const struct consort_cpu __arena *c, u32 cpu, u64 now_ns)
{
	struct consort_slot *s = slot_of(t);
	u32 seq;

	if (!s) {
		if (has_function(t))
			role_look(t, total_ns, c->since_ns, now_ns);
		return;
	}
	seq = *(volatile u32 *)&s->poll_seq;
	if (!t->demoted && task_overran(t, total_ns, now_ns)) {
		count_on(cpu)->overruns++;
		slot_write_why(t, s, CONSORT_WHY_POLLED_LATE, now_ns - t->yield_by_ns);
		task_set_demoted(t, 1);
	} else if (seq != t->poll_seq) {
		count_on(cpu)->polls++;
		if (t->demoted && now_ns < t->yield_by_ns) {
			count_on(cpu)->restorations++;
			task_set_demoted(t, 0);
		}
	}
	slot_look_interrupted(t, s);
	t->poll_seq = seq;
	/* Also without a poll: those that returned at once have published, too. */
	slot_read(t, s, cpu, now_ns);
}

/* Of the task that ran until now: what it has done, and what it pays. */
static __always_inline void account(struct consort_cpu __arena *c, u32 cpu, struct task __arena *t,
				    u64 total_ns, u64 now_ns)
{
	if (t->set)
		look_at_contract(t, total_ns, c, cpu, now_ns);
	task_charge(t, total_ns, now_ns);
}

/* The member of a place's root that is, or is above, the seat that a choice picked; NULL: it is in a class. */
static __always_inline struct tree_node __arena *root_member(struct place __arena *pl,
							     const struct choice __arena *choice)
{
	return tree_member_above(choice->pays, &pl->root);
}

/* How far a place may be ahead of the other one because of due events, in virtual time. */
static __always_inline s64 place_may_lead(const struct place __arena *pl,
					  const struct tree_node __arena *n)
{
	return vtime_of_ns(pl->window_ns + pl->quantum_ns, node_weight(n));
}

/* Of two places: where somebody has waited for longer. */
static __always_inline bool waits_longer(const struct place __arena *one,
					 const struct place __arena *other)
{
	const struct waiter __arena *a = one->waiters.first, *b = other->waiters.first;

	return a && (!b || (s64)(a->since_ns - b->since_ns) < 0);
}

/* Whether of two places of a CPU that have a task for it `side` goes first, by their clocks. */
static __always_inline bool
clock_goes_first(struct place __arena *side, const struct tree_node __arena *side_n,
		 const struct choice __arena *own, struct place __arena *pl,
		 const struct tree_node __arena *n, const struct choice __arena *best)
{
	s64 lead = place_key(side, side_n) - place_key(pl, n);

	if (own->due_ns < best->due_ns)
		return lead <= place_may_lead(side, side_n);
	if (best->due_ns < own->due_ns)
		return -lead > place_may_lead(pl, n);
	return lead ? lead < 0 : waits_longer(side, pl);
}

/* The same beside classes: by what the shard's place and the others have had of the CPU. */
static __always_inline bool side_is_owed(const struct consort_cpu __arena *c)
{
	const struct choice __arena *best = &c->choice, *own = &c->own_choice;

	/* Due times decide, then promises, until one side has had so much more than its part that the other is owed. */
	if (!own_side_may_lead(c) || !shared_side_may_lead(c))
		return c->own_lead_ns < 0;
	if (own->due_ns != best->due_ns)
		return own->due_ns < best->due_ns;
	return (has_claim(own->pays) && !has_claim(best->pays)) || c->own_lead_ns <= 0;
}

/* Whether `side`, whose choice is the CPU's `own_choice`, goes before the place `pl` of its `choice`. */
core_fn side_goes_first(struct consort_cpu __arena *c in_arena, struct place __arena *side in_arena,
			struct place __arena *pl in_arena)
{
	struct choice __arena *best = &c->choice, *own = &c->own_choice;
	struct place __arena *shared = &shard_at(c->shard)->place;
	struct tree_node __arena *side_n, *n;

	if (!best->task)
		return true;
	if (own->waited_ns || best->waited_ns)
		return own->waited_ns > best->waited_ns;
	side_n = root_member(side, own);
	n = root_member(pl, best);
	if (!side_n || !n || pl->root.node.parent || side->root.node.parent) {
		if (pl == shared)
			return side_is_owed(c);
		return own->due_ns != best->due_ns ? own->due_ns < best->due_ns :
						     waits_longer(side, pl);
	}
	return clock_goes_first(side, side_n, own, pl, n, best);
}

/* So many other CPUs are asked who runs there. */
#define SERVED_LOOKS 16

/* The minimum of a group has leapt: it is held back by those of its members that run on other CPUs of the cache. */
core_fn hold_back(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	struct shard __arena *s = shard_at(c->shard);
	u32 other = cpu;

	USES_ARENA();
	for (u32 i = hidden(0); i < SERVED_LOOKS && can_loop; i++) {
		const struct consort_cpu __arena *o;

		other = cpu_after(s, other);
		if (other == cpu)
			break;
		o = cpu_at(other);
		if (o->running)
			choice_hold_back(&c->choice, pays_of(o->running),
					 now_ns - o->since_ns - o->estimated_ns);
	}
	return 0;
}

/* Whether a task that waits in a place has last run on a CPU, and goes first there. */
static __always_inline bool is_hot(struct choice __arena *choice, const struct task __arena *t,
				   u32 cpu, u32 place)
{
	return t && t->cpu == cpu && t->place == place && t->member.node.ready.queued &&
	       pays_itself(t) && hot_goes_first(choice, &t->member.node);
}

/*
 * Whether `running` goes on rather than the choice's task: it has sent messages since it began, and has not had its protected
 * slice, which is its turn then.
 */
static __always_inline bool sender_goes_on(const struct consort_cpu __arena *c,
					   struct choice __arena *choice,
					   struct task __arena *running, u64 now_ns)
{
	u64 protected_ns = place_at(running->place)->protected_ns;

	if (!has_sent(c) || now_ns - c->began_ns >= protected_ns)
		return false;
	choice->slice_ns = protected_ns;
	choice->least_ahead = NEVER_NS;
	if (!hot_goes_first(choice, &running->member.node))
		return false;
	running->turn_until_ns = c->began_ns + protected_ns;
	return true;
}

/* Whether the one that the CPU's last task has woken by a message goes first of those that have just woken. */
static __always_inline bool reader_goes_first(const struct consort_cpu __arena *c,
					      struct choice __arena *choice, u32 place)
{
	const struct task __arena *t = c->reader;

	if (!t || t->place != place || t->member.node.has_run || !t->member.node.ready.queued ||
	    !pays_itself(t))
		return false;
	choice->slice_ns = tunables.min_slice_ns;
	choice->least_ahead = NEVER_NS;
	return hot_goes_first(choice, &t->member.node);
}

/* For so many slices any task that waits may be passed by CPUs' own. */
#define PASSED_SLICES 3

/*
 * Whether one that waits may be passed still: for twice as long as it would wait if its place served all alike, and PASSED_SLICES.
 * What its cache held of it is gone by then, and one of an account that is served less would wait for another turn of that.
 */
static __always_inline bool may_be_passed(const struct task __arena *t, u64 now_ns)
{
	const struct place __arena *pl = place_at(t->place);
	u32 nr_cpus = pl->nr_cpus ?: 1;
	u64 slices = 2 * ((pl->nr_runnable + nr_cpus - 1) / nr_cpus);

	if (slices < PASSED_SLICES)
		slices = PASSED_SLICES;
	return now_ns - t->member.waiter.since_ns < slices * pl->quantum_ns;
}

/*
 * A choice has come to a task that another CPU had last: one of this CPU's may go on instead, one that sends messages, or one that
 * has been sent one. `running` has just run, and may go on. Tasks in `hot` may have ended, as may the reader, and their memory be
 * another's: what counts is what they say of themselves now.
 */
core_fn choose_hot(struct consort_cpu __arena *c in_arena, u32 cpu,
		   struct choice __arena *choice in_arena, struct task __arena *running in_arena,
		   u64 now_ns)
{
	const struct task __arena *first = choice->task ? task_of_node(choice->task) : NULL;
	bool goes_on;
	u32 place;

	USES_ARENA();
	if (!first || choice->due_ns != NEVER_NS || choice->waited_ns ||
	    choice->pays != choice->task || first == running)
		return 0;
	place = first->place;
	goes_on = running && running->place == place && pays_itself(running);
	if (goes_on && sender_goes_on(c, choice, running, now_ns)) {
		choice->task = &running->member.node;
	} else if (!choice->task->has_run) {
		if (reader_goes_first(c, choice, place))
			choice->task = &c->reader->member.node;
	} else if (first->cpu != cpu && may_be_passed(first, now_ns)) {
		choice->slice_ns = place_at(place)->quantum_ns;
		choice->least_ahead = NEVER_NS;
		if (goes_on && hot_goes_first(choice, &running->member.node))
			choice->task = &running->member.node;
		for (u32 i = 0; i < HOT; i++)
			if (is_hot(choice, c->hot[i], cpu, place))
				choice->task = &c->hot[i]->member.node;
	}
	choice->pays = choice->task;
	return 0;
}

/* Of the places beside its shard's that of a CPU's choice which goes first, if one does before the shard's. */
core_fn choose_beside(struct consort_cpu __arena *c in_arena, u32 cpu,
		      struct task __arena *running in_arena, u64 now_ns)
{
	struct place __arena *shared = &shard_at(c->shard)->place, *pl = shared;
	struct choice __arena *best = &c->choice, *own = &c->own_choice;

	USES_ARENA();
	for (u32 i = hidden(0); i <= SUBSETS && can_loop; i = hidden(i + 1)) {
		struct place __arena *side = beside(c, cpu, i);
		bool runs = side && running && place_at(running->place) == side;

		if (!side)
			continue;
		place_deactivated(side);
		if (!runs && !place_head(side)->ready.top)
			continue;
		own->is_alone = !best->task;
		own->defers = 1;
		own->slice_ns = side->quantum_ns;
		place_choose(side, runs ? &running->member.node : NULL,
			     runs ? pays_of(running) : NULL, now_ns, own);
		if (!own->task || !side_goes_first(c, side, pl))
			continue;
		choose_hot(c, cpu, own, running, now_ns);
		pl = side;
		/* Not as a whole: clang copies structs of the arena by addresses that the kernel refuses. */
		best->task = own->task;
		best->pays = own->pays;
		best->due_ns = own->due_ns;
		best->leaps_in = NULL;
		best->waited_ns = own->waited_ns;
	}
	own->defers = 0;
	if (!best->task)
		return 0;
	if (pl != shared)
		clocks_rest(c, cpu, running, pl);
	place_accept(best);
	if (best->leaps_in)
		hold_back(c, cpu, now_ns);
	if (best->due_ns == NEVER_NS && !best->waited_ns)
		clock_serves(c, pl);
	return 0;
}

/* The CPU serves its shard's place: where its minimum is when it has been held back. */
core_fn serve_shared(struct consort_cpu __arena *c in_arena, u32 cpu, u64 now_ns)
{
	if (c->choice.leaps_in)
		hold_back(c, cpu, now_ns);
	clock_serves(c, &shard_at(c->shard)->place);
	return 0;
}

/* Chooses in the place of the CPU's shard. */
static __always_inline void choose_shared(struct consort_cpu __arena *c,
					  struct task __arena *running, bool is_beside, u64 now_ns)
{
	struct place __arena *pl = &shard_at(c->shard)->place;
	struct choice __arena *best = &c->choice;
	struct tree_node __arena *n = running ? &running->member.node : NULL;
	struct tree_node __arena *pays = running ? pays_of(running) : NULL;

	if (best->defers || !place_choose_plain(pl, n, pays, now_ns, best))
		place_choose(pl, is_beside ? NULL : n, pays, now_ns, best);
}

/* Chooses among the places of one of several CPUs. A function of its own: the kernel's verifier follows each path of it once. */
core_fn choose_of_several(struct consort_cpu __arena *c in_arena, u32 cpu,
			  struct task __arena *running in_arena, u64 now_ns)
{
	struct place __arena *pl = &shard_at(c->shard)->place;
	struct choice __arena *best = &c->choice;
	bool is_beside;

	USES_ARENA();
	place_deactivated(pl);
	place_deactivated(&c->place);
	best->is_alone = !waits_beside(c, cpu);
	best->is_busy = live_busy_ns(&pl->waiters, now_ns) > 0;
	is_beside = running && running->place >= SHARDS_MAX;
	best->defers = is_beside || !best->is_alone;
	best->slice_ns = pl->quantum_ns;
	if (best->defers) {
		clocks_compare(c, cpu, running);
		if (running && !in_domain(running) && gives_way(c, cpu, running))
			running = NULL;
	}
	choose_shared(c, running, is_beside, now_ns);
	choose_hot(c, cpu, best, running, now_ns);
	if (best->defers)
		choose_beside(c, cpu, running, now_ns);
	else
		serve_shared(c, cpu, now_ns);
	return 0;
}

/* Chooses among the CPU's places; `running` competes in its own. The result is the CPU's `choice`. */
static __always_inline void choose(struct consort_cpu __arena *c, u32 cpu,
				   struct task __arena *running, u64 now_ns)
{
	if (!one_cpu) {
		choose_of_several(c, cpu, running, now_ns);
		return;
	}
	place_deactivated(&shard_at(c->shard)->place);
	choose_shared(c, running, running && running->place >= SHARDS_MAX, now_ns);
}

/*
 * Gives the kernel the task that has been taken from its queue, with the shard's lock held: whatever the kernel does
 * to the task it will do afterwards, and then forgets what we gave it.
 */
static inline void hand_over(struct consort_cpu __arena *c, u32 cpu, struct task __arena *t,
			     u64 now_ns)
{
	struct task_struct *p = bpf_task_from_pid(t->pid);

	if (p && may_run_on(t, p, cpu)) {
		count_on(cpu)->switches++;
		run_here(p, cpu, chosen_slice_ns(c, now_ns));
	} else {
		count_on(cpu)->lost++;
		if (p)
			task_wait(t, now_ns);
		kick(cpu, KICK(PREEMPT));
	}
	if (p)
		bpf_task_release(p);
}

/*
 * Who has run competes with those that wait, if it may go on. A task that came here while another scheduler or none
 * was in charge is not ours yet.
 */
static inline struct task __arena *task_of_prev(struct consort_cpu __arena *c,
						const struct task_struct *prev)
{
	struct task __arena *t = prev ? task_of(prev) : NULL;

	return t && (one_cpu || shard_of_place(t->place) == c->shard) ? t : NULL;
}

/*
 * Who has run waits at once, so that its successor is told what it wants and one lock is taken; the kernel enqueues
 * it in a moment. Not where another CPU could take it before that, nor a task that has ended: its number may be gone.
 */
static inline bool waits_at_once(const struct task __arena *running, const struct task_struct *prev)
{
	return one_cpu && running && !running->member.node.ready.queued && !prev->exit_state;
}

#endif
