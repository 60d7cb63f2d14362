/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is known of each CPU, and of each shard: the CPUs that share a last-level cache. Both are in the arena (state.h).
 */
#ifndef CONSORT_CPUS_H
#define CONSORT_CPUS_H

#include "choice.h"
#include "interface.h"
#include "lock.h"

struct task;

/* Groups that wait at a time for their own functions to be asked, of one shard. */
#define USER_ASKS 16

/* Words of a CPU mask. */
#define MASK_WORDS ((CPUS_MAX + 63) / 64)

/* A place that others take tasks from, see balance.h. */
struct giver {
	u64 at_ns; /* when one may next be taken, */
	u64 turn_at_ns; /* and when one may next go or come because it is served faster, see migrate.h */
	u64 lag; /* what it was behind when that last happened, or less if it has caught up since */
	u64 served; /* the CPU time that it has, WEIGHT_ONE is one CPU, see speeds.h, */
	u64 load; /* what weighs there to the tasks that wait, */
	u64 weighed; /* what has weighed there over time, in load for each 2^10 ns, */
	u64 weighed_until_ns; /* until then */
	u64 served_ran_ns; /* what its tasks had had when that was last looked at, */
	u64 served_weighed; /* what had weighed there by then, */
	struct group __arena *served_in; /* in which account those waited that did, */
	u64 served_vtime; /* where that one's virtual time was, */
	u64 served_at_ns; /* and when; 0: nobody was there, or somebody has come or gone */
	u32 looks; /* how often it has been measured since; 0: it is not known */
};

/* A place from which a CPU could take nothing that it may run: how long it leaves it alone. */
struct vain {
	u64 until_ns;
	u64 pause_ns;
};

/* So many of them are told apart. */
#define VAINS 8

/* Those among which a CPU chooses: its own, those of its shard's subsets, its shard's. */
#define PLACES_OF_CPU (SUBSETS + 2)

/* From where a CPU takes a task, see balance.h. */
struct pick {
	struct giver __arena *giver; /* NULL: nothing is noted */
	struct consort_cpu __arena *swaps; /* the CPU with whose own place it takes turns; NULL: none */
	u64 lag; /* what the giver is behind */
	u64 served; /* the CPU time of that of its own places which is served slowest, */
	u64 load; /* and what weighs there; 0: it is not known */
	u64 turn_at_ns; /* when a task may next come to any of these to be served faster */
	u32 place;
	u32 faster; /* its tasks would be served faster here: one may come to the CPU's own place though others are there */
	u32 oldest; /* takes what has waited for longest */
	u64 promised_most; /* takes one with a reservation that has been promised no more, as a load; 0: any */
};

/* So many tasks a CPU knows to have last run on it. */
#define HOT 4

struct consort_cpu {
	struct task __arena *running; /* chosen last; NULL: idle */
	struct task __arena *hot[HOT]; /* the last ones that have run on it, see core/hot.h */
	struct task __arena *
		has_lost; /* its choice has just looked at it, and has chosen another one; NULL: none */
	struct task __arena *left; /* put aside for a moment when a higher class took the CPU */
	u64 since_ns; /* when it was chosen or compared */
	u64 began_ns; /* when it was chosen, and not the task before; kept on several CPUs */
	u64 sent_ns; /* when a task on it has last sent another one a message, and woken it: see message.h */
	struct task __arena *reader; /* that one, if it had to wait; NULL: none has */
	s32 reader_pid; /* the thread that is being woken so */
	u64 estimated_ns; /* of its run since then, charged already */
	struct group __arena *flight_in; /* the account in which it runs, see flight.h */
	struct seat __arena *
		flight_seat; /* and the seat, while something is in flight; NULL: it is a task's own */
	u64 flight_ns; /* what is in flight there; 0: nothing */
	u64 busy_ns; /* for how long others had waited for it, at the last look */
	u64 awaited_ns; /* until when a due member awaits the end of the event that runs here, see wake.h */
	u64 compare_at_ns; /* when the running task is to be compared again; NEVER_NS: when it stops */
	u64 timer_at_ns; /* when this CPU's one-shot timer fires; NEVER_NS: not armed */
	u32 timer_failed; /* it could not be armed, the last time */
	u64 clock; /* of the place that it served last by its clock, see clocks.h */
	u64 first_clock; /* the first of those of its places, at the last look */
	u64 gaps[PLACES_OF_CPU]; /* how far the clock of each of its places was from that, at most */
	u64 gap_elsewhere; /* the same of what another one serves, see way.h */
	u32 first; /* the place whose clock was the first */
	u32 elsewhere; /* the other CPU */
	u32 looks_ahead; /* the one that may run a task which is further ahead, at the last look */
	u32 gives_way_to; /* 1 + the CPU that is to take the task which has just run here; 0: none */
	s64 own_lead_ns; /* beside classes: by how much places beside its shard's have had more of it than their part */
	u64 own_weight; /* what they have of it, see division.h, */
	u64 own_promised; /* and what is promised there */
	u64 kept_up_ns; /* when it last looked at its shard's clock, see balance.h */
	u64 balance_at_ns; /* when this CPU next compares its shard with the others */
	struct vain vains[2 * VAINS]; /* where tasks would be served faster here, in the second half */
	u64 promises_at_ns; /* when it next looks whether more has been promised in one of them */
	u64 swap_at_ns; /* when its own place next takes a task from another one's that has more, or gives one */
	u32 forks; /* the shard at which the next new task looks, see fork.h */
	u32 balance_from; /* the CPU at whose own place it looks next */
	u32 told; /* 1 + the place of a task that it has been told of, and has not looked for yet; 0: none */
	u32 asks; /* the group whose own function it asks, or asked last; 0: none's */
	u32 asks_nr; /* members of which that one's function may find something */
	u64 asked_ns; /* what functions took before this choice */
	u64 asks_birth; /* when that was made: numbers are used again */
	u32 seen_idle; /* 1 + the CPU that it saw idle beside work when it last looked; 0: none */
	u32 shard;
	u32 online;
	struct giver giver;
	struct pick pick;
	struct choice choice; /* of the shard's place, and what came of it */
	struct choice own_choice; /* of the CPU's own place, of a subset's, or of one that it steals from */
	struct place place;
};

/* Some of a shard's CPUs, see subsets.h. */
struct subset {
	u64 cpus[MASK_WORDS]; /* a bit for each; none: nobody has needed it yet */
	struct giver giver;
	struct place place;
};

struct shard {
	struct lock lock;
	u32 nr_thieves; /* CPUs that are about to take a task from its place */
	u32 nr_cpus; /* online */
	u32 nr_possible;
	u32 nr_runnable; /* tasks, in its place, in its CPUs' own ones, and in those of subsets */
	u32 nr_in_subsets; /* of these, in those of subsets */
	u32 nr_waiting; /* tasks that wait in any of its places; kept on several CPUs */
	u64 cpus[MASK_WORDS]; /* possible ones: a bit for each */
	u64 online[MASK_WORDS]; /* of these */
	u32 nr_asks; /* groups whose own functions are to be asked, see user.h, */
	u32 asks[USER_ASKS]; /* and their numbers, the first that came first */
	u32 look_at; /* the CPU at which the next of its tasks that begins to wait looks, see wake.h */
	u64 offset; /* what its virtual time is behind the machine's clock, see balance.h */
	struct giver giver;
	struct place place;
	struct subset subsets[SUBSETS];
};

#endif
