/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "adapt.h"

#include <consort.h>

#define MS 1000000ULL
/* Due frames over which lag is forgotten: 64 are 2.7 s at 24 frames/s. */
#define LAG_MEMORY 64
/* Pictures over which costs are averaged. */
#define COST_MEMORY 8

/* How far away a level's due time must be, see adapt.h. */
static const uint64_t reserve_ns[IMPORTANCE_LEVELS] = {
	[IMPORTANCE_KEY] = 0,
	[IMPORTANCE_ANCHOR] = 0,
	[IMPORTANCE_INNER] = 100 * MS,
	[IMPORTANCE_LEAF] = 200 * MS,
};

void adapt_init(struct adapt *a)
{
	*a = (struct adapt){.lost = IMPORTANCE_LEVELS, .key_frame = INT64_MIN};
}

/* Does it refer to something that was left out? */
static bool misses_reference(const struct adapt *a, const struct picture *picture)
{
	if (picture->importance == IMPORTANCE_KEY)
		return false;
	if (a->lost <= IMPORTANCE_ANCHOR)
		return true;
	if (a->leading_lost && picture->frame < a->key_frame)
		return true;
	return picture->importance > a->lost;
}

static bool in_time(const struct adapt *a, const struct picture *picture,
		    const struct adapt_times *t)
{
	uint64_t need_ns = a->cost_ns[picture->importance];

	if (need_ns < reserve_ns[picture->importance])
		need_ns = reserve_ns[picture->importance];
	return t->due_ns >= t->now_ns + need_ns;
}

bool adapt_wants(const struct adapt *a, const struct picture *picture, const struct adapt_times *t)
{
	if (misses_reference(a, picture))
		return false;
	/* Before the start: only what others refer to. */
	if (picture->frame < 0 && picture->importance == IMPORTANCE_LEAF)
		return false;
	if (in_time(a, picture, t))
		return true;
	if (picture->importance > IMPORTANCE_ANCHOR)
		return false;
	/* Late: worth it only if it is done before the next group must begin. */
	return t->next_key_due_ns == CONSORT_NEVER ||
	       t->now_ns + a->cost_ns[picture->importance] + a->cost_ns[IMPORTANCE_KEY] <
		       t->next_key_due_ns;
}

void adapt_left_out(struct adapt *a, const struct picture *picture)
{
	if (picture->importance < a->lost && picture->importance != IMPORTANCE_LEAF)
		a->lost = picture->importance;
}

void adapt_begins(struct adapt *a, const struct picture *picture)
{
	if (picture->importance == IMPORTANCE_KEY) {
		a->leading_lost = a->lost <= IMPORTANCE_ANCHOR || picture->seek;
		a->key_frame = picture->frame;
	} else if (picture->importance == IMPORTANCE_ANCHOR) {
		a->leading_lost = false;
	}
	/* What was lost among the B pictures does no harm after the next reference. */
	if (picture->importance <= IMPORTANCE_ANCHOR)
		a->lost = IMPORTANCE_LEVELS;
}

void adapt_decoded(struct adapt *a, enum importance importance, uint64_t cost_ns)
{
	uint64_t *mean_ns = &a->cost_ns[importance];

	*mean_ns = *mean_ns ? (*mean_ns * (COST_MEMORY - 1) + cost_ns) / COST_MEMORY : cost_ns;
}

void adapt_frame_due(struct adapt *a, bool shown, uint64_t period_ns)
{
	a->lag_ns -= a->lag_ns / LAG_MEMORY;
	if (!shown)
		a->lag_ns += period_ns;
}

uint32_t adapt_priority_begun(void)
{
	return 0;
}

uint32_t adapt_priority(const struct picture *picture)
{
	return 1 + (uint32_t)picture->importance;
}

uint64_t adapt_key(const struct adapt *a, uint64_t due_ns)
{
	return due_ns > a->lag_ns ? due_ns - a->lag_ns : 0;
}
