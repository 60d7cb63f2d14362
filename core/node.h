/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Nodes and groups, of which the tree is made. tree.h says how they are kept, decide/ whose turn it is in a group of each
 * kind, seat.h how a domain takes part.
 */
#ifndef CORE_NODE_H
#define CORE_NODE_H

#include "heap.h"
#include "ledger.h"
#include "vtime.h"

#define TREE_DEPTH_MAX 8
/* A reserved cgroup is below its reservation and class, besides. */
#define TREE_LEVELS_MAX (TREE_DEPTH_MAX + 2)

enum node_kind {
	NODE_TASK, /* leaf: a task in its own seat */
	NODE_SEAT, /* leaf: a domain's seat in an account, see seat.h */
	NODE_COOP, /* decision group: a cooperation domain, see decide/coop.h. Not an account: it is in no group */
	NODE_FAIR, /* account: smallest virtual time first, see decide/fair.h */
	NODE_PERIOD, /* account: whose period ends first, of those that are not ahead, see decide/period.h */
	NODE_RC, /* account: whose period ends first, see decide/rc.h */
};

struct group;

/* A member of a group: a task, a domain's seat, or a group. */
struct tree_node {
	struct heap_link ready; /* in one of the parent's queues, while it waits */
	struct group __arena *parent;
	u64 vtime; /* while it is not active, by its group's sleepers' clock: see node_vtime() */
	u64 weight; /* what it was given */
	/*
	 * In a fair group: where its others were when it went to sleep; then, when it has had what it was owed. With periods: how
	 * far the virtual time that it is promised by now is ahead of the clock's (rc.h); period_keep_up() uses it.
	 */
	u64 rest_vtime;
	u64 period_vtime; /* 0: none; of a group with periods only, as the next three */
	u64 turn_vtime; /* what running for the shortest slice adds to its virtual time */
	u64 ends_vtime; /* when its present period does */
	u32 nr_seated; /* of a seat: the active members that it stands for */
	u8 is_ahead; /* which of the group's two queues it waits in */
	u8 kind; /* enum node_kind */
	u8 active; /* runnable: waits or runs */
	u8 has_run; /* since it became active: one that has not goes first where virtual times tie */
};

struct group {
	struct tree_node node;
	struct heap ready; /* waiting members, in the order of the group's kind; empty if none waits */
	struct heap ahead; /* NODE_PERIOD: the others that wait, see decide/period.h */
	struct heap blocked; /* domains that have borrowed enough here, by the virtual time at which they may again */
	u64 vmin; /* smallest virtual time of the active members; with periods: its own; never goes back */
	u64 mean; /* while domains have borrowed enough here: where its members are on average, see decide/fair.h */
	u64 seats_ahead_ns; /* how far a domain's seat may be ahead of the others, besides slices; 0: none has been looked at */
	u64 weight_all; /* with periods: sum over all members, kept by the host */
	u64 weight_here; /* the same of those in this of several queues, see class.h; 0: all */
	u64 capacity; /* of a class: what its members have in sum, WEIGHT_ONE for each CPU; kept by the host */
	u64 nominal_weight; /* the same of one CPU, of the root beside classes, too; 0: it is neither; kept by the host */
	struct group __arena *next_class; /* of the place; kept by the host */
	u64 weight_active; /* sum over active members */
	u64 in_flight_ns; /* CPU time that tasks below it are about to have on several CPUs, and are not charged for: see tree.h */
	u64 ran_ns; /* CPU time that its members have had; of the root: since it has been alone */
	u64 load; /* of its active tasks, and of the accounts in it, see ledger.h */
	u64 load_above; /* what it is of its parent's load */
	u64 load_here; /* what it counts in the ledger */
	u64 weight_seen; /* with which it competed when that was last looked at, see tree.h; 0: never */
	struct ledger __arena *ledger; /* of the account in all queues; NULL: its weight is not divided */
	struct served served; /* here, since it has had a load */
	u64 spare_vtime; /* how far CPU time for which nobody waited would have put its members on average, see decide/fair.h */
	u32 nr_active;
	u32 nr_loaded; /* tasks that its load is of: active, in it or in the accounts in it */
	u32 nr_seats; /* of domains, in it or in the accounts in it */
	u8 level; /* 0: root */
	u8 of_one_cpu; /* its queue is: set by the host, as the next one */
	u8 is_balanced; /* tasks of its queue go where they would be served faster */
};

static __always_inline struct tree_node __arena *node_of_ready(struct heap_link __arena *l)
{
	return outer_of(l, struct tree_node, ready);
}

static __always_inline struct group __arena *group_of(struct tree_node __arena *n)
{
	return outer_of(n, struct group, node);
}

static __always_inline int group_has_periods(const struct group __arena *g)
{
	return g->node.kind >= NODE_PERIOD;
}

/* The first waiting member, NULL if none. */
static __always_inline struct tree_node __arena *group_first(struct group __arena *g)
{
	struct heap_link __arena *top = g->ready.top;

	return top ? node_of_ready(top) : NULL;
}

/* The weight with which a node competes here: of an account that is in several queues, this one's part. Of a class see class.h. */
static __always_inline u64 node_weight(const struct tree_node __arena *n)
{
	const struct group __arena *g;

	if (n->kind < NODE_FAIR)
		return n->weight;
	g = outer_of(n, struct group, node);
	return g->ledger && !g->nominal_weight ?
		       ledger_part(g->ledger, n->weight, g->load, g->load_here) :
		       n->weight;
}

/* What the active members of a group weigh in this queue: accounts that are in others, too, their parts, as loads say. */
static __always_inline u64 group_weight_here(const struct group __arena *g)
{
	return g->load ? weight_of_load(g->load) : g->weight_active;
}

/*
 * The virtual time of a member of a group, active or not. Those that are not keep theirs by a clock that goes on in spare CPU
 * time, too: so it repays for all of them at once.
 */
static __always_inline u64 node_vtime(const struct tree_node __arena *n)
{
	return n->active ? n->vtime : n->vtime - n->parent->spare_vtime;
}

static __always_inline void node_set_vtime(struct tree_node __arena *n, u64 vtime)
{
	n->vtime = n->active ? vtime : vtime + n->parent->spare_vtime;
}

#endif
