/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Rules of what tasks have been promised: reservations and domains know how many they are for, those included that another
 * class has for a while. Included once, after check.h.
 */

static u32 count_in_reservation(const struct checking *c, const struct reservation *r)
{
	u32 count = 0;

	for (u32 i = 0; i < c->nr_tasks; i++) {
		const struct task *t = find_anywhere(c->tasks[i].task);

		count += t && own_reservation(t) == r;
	}
	return count;
}

static u32 count_in_domain(const struct checking *c, const struct domain_set *set)
{
	u32 count = 0;

	for (u32 i = 0; i < c->nr_tasks; i++) {
		const struct task *t = find_anywhere(c->tasks[i].task);

		count += t && t->set == set;
	}
	return count;
}

static void check_promises(struct checking *c)
{
	for (u32 id = 1; id <= sim_reservations_max && !c->broken; id++) {
		const struct reservation *r = find_reservation(id);
		u32 count = r ? count_in_reservation(c, r) : 0;

		if (r && count != r->nr_tasks)
			broken(c, "promise", "%u tasks have reservation %u, it counts %u", count,
			       id, r->nr_tasks);
	}
	for (u32 id = 1; id <= sim_domains_max && !c->broken; id++) {
		const struct domain_set *set = find_domain_set(id);
		u32 count = set ? count_in_domain(c, set) : 0;

		if (set && count != set->nr_members)
			broken(c, "promise", "%u tasks are in domain %u, it counts %u", count, id,
			       set->nr_members);
	}
}
