/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of groups with functions: who plays which role, and that an interval is kept, or that there is a cause. Included once,
 * after check.h and bounds.h.
 */

/* What is due in a group is due at once for all but a moment: a borrower runs for the shortest slice before it is compared. */
static u64 interval_late_ns(const struct checking *c)
{
	return tunables.min_slice_ns + 1000000 + GRACE_MAX_NS + c->bounds.late_ns;
}

/* When somebody who ran on one of the shard's CPUs was last due, too, or is asked to poll and not preempted. */
static u64 others_due_ns[SHARDS_MAX];

/* When a group was last seen to have borrowed enough. */
static u64 blocked_ns[DOMAINS_MAX];

/* To be called at each look: whoever waited for one who was due need not go before the one that has just preempted that. */
static void note_others_due(u64 now_ns)
{
	for (u32 cpu = 0; cpu < topology.nr_cpus; cpu++) {
		const struct consort_cpu *state = cpu_at(cpu);
		const struct task *t = state->running;

		if (t && in_domain(t) && (t->member.due_ns <= now_ns || !t->set->function))
			others_due_ns[state->shard] = now_ns;
	}
}

/* What a member that waits is compared by is what its function says of it. */
static void check_order(struct checking *c, const struct sim_task_ref *ref, const struct role *r,
			const struct task *t)
{
	u64 key = t->member.key;

	if (topology.nr_shards > 1 || !in_domain(t) || !t->member.node.ready.queued)
		return;
	if (domain_in(t->set, t->place)->order == ORDER_FUNCTION)
		key = t->member.node.ready.minor;
	if (key != function_key(r))
		broken(c, "order",
		       "task %u waits at place %llu of its group, its function says %llu",
		       ref->task->sim_task, key, function_key(r));
}

/* Whether tasks of another place want CPUs of this one's cache: by their clocks the group may have had its part. */
static bool wanted_beside(u32 place)
{
	for (u32 i = 0; i < nr_places(); i++) {
		u32 other = nth_place(i);

		if (other != place && shard_of_place(other) == shard_of_place(place) &&
		    place_at(other)->nr_runnable)
			return true;
	}
	return false;
}

/* A member that waits, and for how long it has without a change, must be served in its interval unless something stands by. */
static void check_interval(struct checking *c, const struct sim_task_ref *ref, const struct role *r,
			   const struct task *t)
{
	const struct place *pl = place_at(t->place);
	const struct domain *d = domain_in(t->set, t->place);
	u64 now_ns = *sim_host->now_ns, from_ns, waits_ns, due_ns;

	if (!c->bounds.cpus_stay || t->place >= SHARDS_MAX || !in_domain(t))
		return;
	if (d->blocked_in || wanted_beside(t->place))
		blocked_ns[t->set->id] = now_ns;
	/* The role may not know its interval yet, while nobody looks at it. */
	if (!t->member.node.ready.queued || !role_is_on(r, now_ns))
		return;
	from_ns = r->from_ns > r->awake_ns ? r->from_ns : r->awake_ns;
	waits_ns = waits_unheld_ns(ref, t);
	if (blocked_ns[t->set->id] > from_ns)
		from_ns = blocked_ns[t->set->id];
	due_ns = others_due_ns[shard_of_place(t->place)];
	/* One with a rate may have had that meanwhile, and have waited for others of its class. */
	if (due_ns == now_ns || (t->set->reservation && due_ns > from_ns))
		from_ns = due_ns;
	if (now_ns - from_ns < waits_ns)
		waits_ns = now_ns - from_ns;
	if (waits_ns < interval_late_ns(c) || pl->waiters.again_at_ns > now_ns ||
	    d->nr_blocked != r->nr_blocked)
		return;
	broken(c, "interval",
	       "task %u has waited for %llu us of its interval, and nobody else is due",
	       ref->task->sim_task, waits_ns / 1000);
}

/*
 * A member that runs is compared when its interval ends, and one that is not due when another one of its group goes
 * before it: on one CPU, where nobody else may have to be told.
 */
static void check_running(struct checking *c, const struct sim_task_ref *ref, const struct role *r,
			  const struct task *t)
{
	const struct consort_cpu *state = cpu_at(t->cpu);
	u64 now_ns = *sim_host->now_ns, ends_ns = r->until_ns;
	const struct tree_node *first;
	struct domain *d;

	if (!one_cpu || !c->bounds.cpus_stay || state->running != t || !in_domain(t))
		return;
	d = domain_in(t->set, t->place);
	if (ends_ns != NEVER_NS && ends_ns + tunables.min_slice_ns + c->bounds.late_ns < now_ns)
		broken(c, "overstay", "task %u runs, and its interval ended %llu us ago",
		       ref->task->sim_task, (now_ns - ends_ns) / 1000);
	first = group_first(&d->group);
	if (first && d->order == ORDER_FUNCTION && t->member.due_ns > now_ns &&
	    heap_key_before(first->ready.major, first->ready.minor, t->member.priority,
			    t->member.key) &&
	    state->compare_at_ns > now_ns + tunables.min_slice_ns + c->bounds.late_ns)
		broken(c, "order", "task %u is not compared with one of its group that is before it",
		       ref->task->sim_task);
}

/* A member that runs is compared soon when something has happened that its group's own function has not been asked about. */
static void check_asked(struct checking *c, const struct sim_task_ref *ref, const struct role *r,
			const struct task *t)
{
	const struct function *f = r->function;
	const struct consort_cpu *state = cpu_at(t->cpu);

	if (!one_cpu || !c->bounds.cpus_stay || f->kind != FUNCTION_USER || f->is_off ||
	    !f->is_stale || state->running != t || !in_domain(t))
		return;
	if (state->compare_at_ns > *sim_host->now_ns + tunables.min_slice_ns + c->bounds.late_ns)
		broken(c, "unasked", "task %u runs on, and its group's function is not asked",
		       ref->task->sim_task);
}

static void check_player(struct checking *c, const struct sim_task_ref *ref)
{
	const struct task *t = find_anywhere(ref->task);
	const struct role *r = t ? t->member.role : NULL;

	if (!r)
		return;
	if (!t->set || t->set->function != r->function)
		broken(c, "role", "task %u plays a role of another group than its own",
		       ref->task->sim_task);
	if (!c->broken && r->member != &t->member)
		broken(c, "role", "task %u plays role %u, and another one has it",
		       ref->task->sim_task, r->number);
	if (!c->broken)
		check_order(c, ref, r, t);
	if (!c->broken)
		check_interval(c, ref, r, t);
	if (!c->broken)
		check_running(c, ref, r, t);
	if (!c->broken)
		check_asked(c, ref, r, t);
}

static bool is_somebody(const struct checking *c, const struct member *m)
{
	for (u32 i = 0; i < c->nr_tasks; i++) {
		const struct task *t = find_anywhere(c->tasks[i].task);

		if (t && &t->member == m)
			return true;
	}
	return false;
}

/*
 * Whether a role's interval is the first of its plan that is not over: looked for from the beginning. One that is over has not
 * been looked at since.
 */
static bool is_planned(const struct role *r)
{
	u64 now_ns = *sim_host->now_ns, zero_ns = r->zero_ns, round = 0;
	const struct plan *p = r->plan;

	if (r->until_ns <= now_ns)
		return true;
	if (!p || zero_ns == NEVER_NS)
		return false;
	if (p->repeat_ns && now_ns > zero_ns)
		round = (now_ns - zero_ns) / p->repeat_ns;
	/* The plan may have come to the end of its last interval, and not begun anew. */
	for (u32 turn = 0; turn < (p->repeat_ns ? 2 : 1); turn++, round++) {
		u64 begins_ns = zero_ns + round * p->repeat_ns;

		for (u32 i = 0; i < p->nr; i++)
			if (begins_ns + p->at[i].end_ns > now_ns)
				return r->from_ns == begins_ns + p->at[i].start_ns &&
				       r->until_ns == begins_ns + p->at[i].end_ns;
	}
	return false;
}

/* What was known of a role at the last look. */
struct past_role {
	const struct function *of;
	const struct plan *plan;
	u64 zero_ns;
	u64 interval;
	u64 counted; /* intervals that are over */
	bool planned; /* it has one of a plan */
};

static struct past_role past_roles[DOMAINS_MAX][ROLES_MAX];

static void forget_roles(void)
{
	memset(past_roles, 0, sizeof(past_roles[0]) * (sim_domains_max + 1));
	memset(blocked_ns, 0, sizeof(blocked_ns[0]) * (sim_domains_max + 1));
	memset(others_due_ns, 0, sizeof(others_due_ns));
}

/* Each of a plan's intervals that is over was kept, or missed for a cause. */
static void check_counts(struct checking *c, struct past_role *old, const struct role *r)
{
	bool planned = r->plan && !r->follows && r->from_ns != NEVER_NS;
	struct past_role now = { r->function, r->plan, r->zero_ns, r->interval, r->kept, planned };
	bool same = old->of == now.of && old->plan == now.plan && old->zero_ns == now.zero_ns;

	for (u32 i = 0; i < NR_MISSES; i++)
		now.counted += r->missed[i];
	if (same && planned && old->planned &&
	    now.counted - old->counted != now.interval - old->interval)
		broken(c, "counts", "of %lld intervals of role %u %lld were kept or missed",
		       (s64)(now.interval - old->interval), r->number,
		       (s64)(now.counted - old->counted));
	*old = now;
}

/* Where a stage stands is by the levels that are known: at its mark it goes last. */
static void check_stage(struct checking *c, const struct role *r)
{
	if (r->function->kind != FUNCTION_PIPELINE || !r->step || !r->high)
		return;
	if ((pipeline_level(r) >= r->high) != (r->rank >= PIPELINE_IS_FULL))
		broken(c, "stage", "stage %u has a level of %u, its mark is %u, its rank %u",
		       r->number, pipeline_level(r), r->high, r->rank);
}

/* An interval begins before it ends, and not after the one that is said to be next. */
static void check_role(struct checking *c, const struct role *r)
{
	if (r->member && (!is_somebody(c, r->member) || r->member->role != r))
		broken(c, "role", "role %u is played by nobody who is there", r->number);
	if (r->from_ns != NEVER_NS && r->from_ns >= r->until_ns)
		broken(c, "role", "the interval of role %u ends before it begins", r->number);
	if (r->number >= r->function->nr_roles && r->member)
		broken(c, "role", "role %u is played, and has not been counted", r->number);
	if (r->from_ns != NEVER_NS &&
	    (r->follows ? r->until_ns - r->from_ns > 2 * r->follow_ns : !is_planned(r)))
		broken(c, "plan",
		       "role %u has an interval of %llu ns from %llu on that it should not",
		       r->number, r->until_ns - r->from_ns, r->from_ns);
	if (r->period_ns && r->member && r->ends_ns &&
	    (r->left_ns <= 0 || (u64)r->left_ns > CONSORT_PERIOD_MAX_NS))
		broken(c, "budget", "role %u has %lld ns left", r->number, r->left_ns);
}

/* What a function of a user's own has said is in its bounds, and nothing is left of what one said that is off. */
static void check_key(struct checking *c, const struct role *r)
{
	const struct function *f = r->function;

	if (r->key != USER_NO_KEY && (r->key >= USER_KEYLESS || f->is_off))
		broken(c, "key", "role %u has key %llu from its group's function", r->number,
		       r->key);
}

static void check_a_role(struct checking *c, struct past_role *old, const struct role *r)
{
	check_role(c, r);
	check_counts(c, old, r);
	check_stage(c, r);
	check_key(c, r);
}

static bool is_listed(const struct shard *s, u32 id)
{
	for (u32 i = 0; i < s->nr_asks; i++)
		if (s->asks[i] == id)
			return true;
	return false;
}

/* A group is in a shard's list of those that are to be asked, or is not marked as if it were; nobody else is in it. */
static void check_asks(struct checking *c)
{
	for (u32 shard = 0; shard < topology.nr_shards; shard++) {
		const struct shard *s = shard_at(shard);

		if (s->nr_asks > USER_ASKS)
			broken(c, "asks", "%u groups are in a list of %u", s->nr_asks, USER_ASKS);
		for (u32 i = 0; i < s->nr_asks && !c->broken; i++)
			if (!is_user_function(find_domain_set(s->asks[i])))
				broken(c, "asks", "group %u is to be asked, and has nobody to ask",
				       s->asks[i]);
		for (u32 id = 1; id <= sim_domains_max && !c->broken; id++) {
			struct domain_set *set = find_domain_set(id);

			if (is_user_function(set) && *asks_of(set, shard) != is_listed(s, id))
				broken(c, "asks", "group %u is marked as one to be asked: %u", id,
				       *asks_of(set, shard));
		}
	}
}

static void check_roles(struct checking *c)
{
	note_others_due(*sim_host->now_ns);
	if (!c->broken)
		check_asks(c);
	for (u32 id = 1; id <= sim_domains_max && !c->broken; id++) {
		const struct domain_set *set = find_domain_set(id);

		for (u32 i = 0; set && set->function && i < ROLES_MAX; i++)
			check_a_role(c, &past_roles[id][i], &set->function->roles[i]);
	}
	for (u32 i = 0; i < c->nr_tasks && !c->broken; i++)
		check_player(c, &c->tasks[i]);
}
