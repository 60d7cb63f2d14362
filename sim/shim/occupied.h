/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * In which places a domain is looked at: where it has members or seats, or counts some. Elsewhere it is empty, and a machine of many
 * CPUs has hundreds of domains in a thousand places. Found anew for each check. Included once, before check.h.
 */

static struct group **occupied; /* domains' groups, by place */
static u32 occupied_to[PLACES_MAX]; /* by place_index(): where those of the next one begin */
static u8 *has_members; /* by domain and place, for the list that is made */
static struct domain_set **sets_by_id;

static u32 occupied_from(u32 place)
{
	u32 index = place_index(place);

	return index ? occupied_to[index - 1] : 0;
}

static void *room_for(void *old, size_t bytes)
{
	void *new = realloc(old, bytes);

	if (!new)
		abort();
	return new;
}

static bool is_empty(const struct domain *d)
{
	const struct group *g = &d->group;

	return !d->seats && !g->ready.top && !g->ahead.top && !g->nr_active && !g->weight_active &&
	       !g->in_flight_ns;
}

static void note_members(const struct sim_task_ref *tasks, u32 nr_tasks)
{
	memset(has_members, 0, (sim_domains_max + 1ULL) * nr_places());
	for (u32 i = 0; i < nr_tasks; i++) {
		struct task *t = find_task(tasks[i].task);

		if (t && t->set)
			has_members[(size_t)t->set->id * nr_places() + place_index(t->place)] = 1;
	}
}

/* Returns how many there are. */
static u32 find_occupied(const struct sim_task_ref *tasks, u32 nr_tasks)
{
	size_t pairs = (sim_domains_max + 1ULL) * nr_places();
	u32 nr = 0;

	has_members = room_for(has_members, pairs);
	occupied = room_for(occupied, pairs * sizeof(*occupied));
	sets_by_id = room_for(sets_by_id, (sim_domains_max + 1ULL) * sizeof(*sets_by_id));
	for (u32 id = 1; id <= sim_domains_max; id++)
		sets_by_id[id] = find_domain_set(id);
	note_members(tasks, nr_tasks);
	for (u32 i = 0; i < nr_places(); i++) {
		for (u32 id = 1; id <= sim_domains_max; id++) {
			struct domain *d =
				sets_by_id[id] ? domain_in(sets_by_id[id], nth_place(i)) : NULL;

			if (d && (has_members[(size_t)id * nr_places() + i] || !is_empty(d)))
				occupied[nr++] = &d->group;
		}
		occupied_to[i] = nr;
	}
	return nr;
}
