/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The scheduler's state, all of it in one arena that only the scheduler maps.
 *
 *   shard 0..S-1   CPUs that share a last-level cache: one lock, one place for tasks that may run on any of them
 *   cpu 0..C-1     one place for tasks that may not (pinned, migration-disabled), under its shard's lock
 *   subset         some of a shard's CPUs: one place for tasks that may run on just these, under the shard's lock
 *   group set      a cgroup, a class or a reservation: one group in each place
 *   domain set     a cooperation domain, or a group with a decision function: one domain in each place
 *   task           a thread: in one place at a time
 */
#ifndef CONSORT_STATE_H
#define CONSORT_STATE_H

#include "kernel.h"
#include "lock.h"
#include "role.h"

/* What core tells of intervals is noted: reason.h. */
static __always_inline void note_interval(const struct role __arena *r, u32 became, u32 why,
					  u64 late_ns, u32 count, u64 now_ns);
#define role_tells note_interval

#include "class.h"
#include "compare.h"
#include "consort_abi.h"
#include "interface.h"
#include "limit.h"
#include "cpus.h"

const volatile struct consort_topology topology;
const volatile bool use_timers = true;
struct consort_tunables tunables = {
	.granularity_ns = 4000000,
	.min_slice_ns = 500000,
	.window_ns = 6000000,
};
struct consort_counters counters[CPUS_MAX] SEC(".bss.counters");
struct consort_exit_info exit_info;
struct consort_class_table class_table;

/* Tasks that a limit holds, in the order in which they are let go, see limits.h. */
struct held {
	struct waiter __arena *first;
	struct waiter __arena *last;
	u32 released; /* the pid of the one that was let go last */
};

struct group_set {
	u64 id; /* of the cgroup */
	struct group_set __arena *parent; /* NULL: the root */
	u32 weight;
	u32 level;
	u32 reserved; /* a cgroup's: its groups are below a reservation's */
	u32 nr_riders; /* tasks that are in it in another one's place, see inherit.h */
	struct ledger ledger; /* of its tasks in all places */
	struct limit limit; /* a cgroup's */
	struct group groups[]; /* by place; the root has none: it is the places' root. Behind a cgroup's: its `held`, by shard */
};

/* Those in which there may be a CPU of ours. */
static inline u32 mask_words(void)
{
	return (topology.nr_cpus + 63) / 64;
}

/* A class: one group in each place, below the place's top. */
struct class_set {
	u32 nr_reservations;
	struct group_set set;
};

/* A reservation: one group in each place, below its class, for the threads that share it. */
struct reservation {
	u32 id;
	u32 nr_tasks;
	u32 nr_domains; /* whose members share it */
	u64 cgroup; /* that it is for, instead of single threads; 0: none */
	struct class_set __arena *class;
	struct group_set set;
};

/* A cooperation domain, or a group with a function. */
struct domain_set {
	u32 id;
	u32 nr_members; /* demoted ones included */
	u32 order;
	u32 flags;
	u64 grace_ns;
	u64 birth; /* how many were made before */
	struct function __arena *function; /* NULL: its members publish for themselves */
	struct reservation __arena
		*reservation; /* that its members share who have none themselves; NULL: none */
	u64 owes_ns[SHARDS_MAX]; /* by shard: what its own function took there, and no member has paid yet */
	u8 asks[SHARDS_MAX]; /* by shard: it is among those that are to be asked there, see user.h */
	struct domain domains[]; /* by place */
};

/* Whether a task that waits may be moved to another CPU. */
enum stay {
	STAY_NOT,
	STAY_FOR_A_MOMENT, /* until its CPU has switched to a task of a higher class */
	STAY, /* it has disabled its migration */
};

/* Where a task belongs in the tree, whatever place of the machine it is in. */
struct own_seat {
	struct group_set __arena *home;
	struct reservation __arena *reservation;
	u64 lead_ns; /* how far it was ahead there */
};

struct task {
	struct member member;
	struct tree_node __arena *pays; /* the seat in which it runs: its own, or one of its domain's */
	struct group_set __arena *home; /* its cgroup's, or its reservation's */
	struct reservation __arena *reservation; /* NULL: none */
	struct domain_set __arena *set; /* the domain that it has joined; NULL: none */
	u64 charged_ns; /* of the kernel's sum_exec_runtime */
	u64 turn_until_ns; /* of the first since it woke */
	u64 yield_by_ns; /* as last written to its slot */
	u64 began_ns; /* a member: when it was chosen for the run that it has now, or joined; */
	u64 began_charged_ns; /* and its charged_ns then */
	s32 pid;
	u32 poll_seq; /* last one seen */
	u32 weight; /* from its nice value */
	u32 granted_ns; /* what it took from the budgets of limits for its run, see budget.h; 0: nothing limits it */
	u16 place; /* changes only while the lock of the shard that it names is held */
	u16 cpu; /* that has last been told to run it */
	u16 thief; /* 1 + the CPU that is taking it to another shard; 0: none */
	u16 client;
	u8 slot;
	u8 demoted;
	u8 stays; /* enum stay */
	u8 resumes; /* times that it lost the CPU since its last poll */
	u8 is_new; /* it has joined, and not polled since */
	u8 on_the_way; /* to another place: it has left its account there, and not come to the one here */
	u8 by_domain; /* its reservation is that of its domain: it has it while it is a member */
	u8 blocked; /* sleeps until it gets a lock whose holder the kernel knows */
	struct task __arena *holder; /* of that lock: who may ride in its seat; NULL: not one of ours */
	struct task __arena *rides; /* in whose seat it is; NULL: in its own */
	struct own_seat own; /* while it rides, */
	u32 own_weight; /* and its weight there */
	u32 load; /* what it counts in its account; 0: it is not active */
	u64 rides_from_ns; /* its charged_ns when it began to */
	struct group_set __arena *held_by; /* by whose limit it is held, see limits.h; NULL: by none */
	u64 owes_ns; /* what others have had in its seat, and it has not paid for */
	struct task __arena *next_free;
	u64 kernel_task; /* its task_struct's address; 0: not scheduled by us any more */
	u64 away; /* the same while another class has it and we keep its place; 0: ours, or nobody's */
	/* Somebody else's, maybe, also after the task has ended: what it brought to its domain, see core/seat.h. */
	struct seat brought;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 << 18); /* pages; taken only when used: 1 GiB at most */
} arena SEC(".maps");

/* The kernel lets only programs that name the arena follow pointers into it: each begins with this. */
#define USES_ARENA() asm volatile("" ::"r"(&arena))

/* Pointers into the arena, set by consort_init_arena. */
struct consort_cpu __arena *cpus;
struct shard __arena *shards;
struct group_set __arena *root_set;

/* Where a place is. Groups and domains have theirs densely, in the order of `index`, see nth_place. */
struct place_entry {
	struct place __arena *at;
	u32 shard;
	u32 index;
	u32 kind; /* enum place_kind */
};

enum place_kind { PLACE_OF_SHARD, PLACE_OF_CPU, PLACE_OF_SUBSET };

struct place_entry __arena *directory; /* by place */

/* The one behind the last stands for CPUs for which there is no room, see cpu_comes(): always offline. */
static inline struct consort_cpu __arena *cpu_at(u32 cpu)
{
	return cpus + (cpu < topology.nr_cpus ? cpu : topology.nr_cpus);
}

static inline struct shard __arena *shard_at(u32 shard)
{
	return shards + (shard < SHARDS_MAX ? shard : 0);
}

static inline u32 place_of_shard(u32 shard)
{
	return shard;
}

static inline u32 place_of_cpu(u32 cpu)
{
	return SHARDS_MAX + cpu;
}

#define PLACE_SUBSETS (SHARDS_MAX + CPUS_MAX)

static inline u32 place_of_subset(u32 shard, u32 subset)
{
	return PLACE_SUBSETS + shard * SUBSETS + subset;
}

/* A subset of a shard. Linux 6.18 lets only the first operand of a sum be an address in the arena, as a compiler need not. */
static inline struct subset __arena *subset_at(struct shard __arena *s, u32 subset)
{
	struct subset __arena *b = s->subsets;
	u64 bytes = subset % SUBSETS * sizeof(*b);

#ifdef __bpf__
	asm volatile("%0 += %1" : "+r"(b) : "r"(bytes));
	return b;
#else
	return b + bytes / sizeof(*b);
#endif
}

/* Looked up, not computed: kinds of places would be paths at each of hundreds of uses, and Linux 6.18 follows a million steps. */
static inline u32 shard_of_place(u32 place)
{
	return directory[place].shard;
}

static inline struct place __arena *place_at(u32 place)
{
	return directory[place].at;
}

/* Two CPUs have no subset of which one alone is not a part. */
static inline u32 subsets_of_shard(void)
{
	return topology.nr_cpus > 2 ? SUBSETS : 0;
}

/* Whether a place is a CPU's own. */
static inline bool is_own(u32 place)
{
	return directory[place].kind == PLACE_OF_CPU;
}

/* What is known of a place from which tasks are taken. */
static inline struct giver __arena *giver_at(u32 place)
{
	if (is_own(place))
		return &cpu_at(place - SHARDS_MAX)->giver;
	if (place < SHARDS_MAX)
		return &shard_at(place)->giver;
	return &subset_at(shard_at(shard_of_place(place)), place - PLACE_SUBSETS)->giver;
}

static inline u32 place_index(u32 place)
{
	return directory[place].index;
}

static inline u32 nr_places(void)
{
	/* One CPU has no use for a place of its own beside its shard's. */
	if (one_cpu)
		return topology.nr_shards;
	return topology.nr_shards + topology.nr_cpus + topology.nr_shards * subsets_of_shard();
}

/* The number of the i-th place that exists. */
static inline u32 nth_place(u32 i)
{
	if (i < topology.nr_shards)
		return i;
	i -= topology.nr_shards;
	return i < topology.nr_cpus ? SHARDS_MAX + i : PLACE_SUBSETS + i - topology.nr_cpus;
}

static inline struct group __arena *group_in(struct group_set __arena *set, u32 place)
{
	if (!set || !set->parent)
		return &place_at(place)->root;
	return set->groups + place_index(place);
}

/* Whether a reservation is for a cgroup, or for one that it is in. */
static inline bool is_reserved(const struct group_set __arena *set)
{
	for (int level = 0; level <= TREE_LEVELS_MAX && can_loop; level++) {
		if (!set)
			break;
		if (set->reserved)
			return true;
		set = set->parent;
	}
	return false;
}

static inline struct domain __arena *domain_in(struct domain_set __arena *set, u32 place)
{
	return set->domains + place_index(place);
}

/*
 * The task's state. It hangs on the one field of task_struct.scx that the kernel keeps for the scheduler and that
 * only queues ordered by the kernel would use: a plain load, where task storage costs a search at every callback.
 */
static inline struct task __arena *task_of(const struct task_struct *p)
{
	return (struct task __arena *)p->scx.dsq_vtime;
}

static inline bool set_task_of(struct task_struct *p, struct task __arena *t)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		return scx_bpf_task_set_dsq_vtime(p, (u64)t);
	p->scx.dsq_vtime = (u64)t;
	return true;
}

/* The same where the field may still hold what an earlier scheduler left there. */
static inline struct task __arena *find_task(const struct task_struct *p)
{
	struct task __arena *t = task_of(p);

	return t && t->kernel_task == (u64)p ? t : NULL;
}

static inline struct task __arena *task_of_node(struct tree_node __arena *n)
{
	return outer_of(member_of(n), struct task, member);
}

/* How often a task may change shards while its lock is being taken. */
#define TASK_LOCK_TURNS 1000

/* Takes the lock of the shard that the task is in. */
static inline struct lock __arena *task_lock(struct task __arena *t)
{
	struct lock __arena *l = NULL;
	u32 shard;
	int turn;

	bpf_for(turn, 0, TASK_LOCK_TURNS)
	{
		shard = shard_of_place(t->place);
		l = &shard_at(shard)->lock;
		lock_take(l);
		if (shard_of_place(t->place) == shard)
			return l;
		lock_release(l);
	}
	scx_error("task_lock: task %d does not stay in a shard", t->pid);
	lock_take(l);
	return l;
}

static inline bool in_domain(const struct task __arena *t)
{
	return t->set && !t->demoted;
}

/* Whether a task pays for itself: a member's turn is its domain's, and one that rides has its seat's. */
static __always_inline bool pays_itself(const struct task __arena *t)
{
	return !in_domain(t) && !t->rides;
}

static inline struct consort_counters *count_on(u32 cpu)
{
	/* The compiler keeps nothing of this for the next time: callers have no room for it. */
	asm volatile("" : "+r"(cpu));
	return &counters[cpu & topology.cpu_mask];
}

#endif
