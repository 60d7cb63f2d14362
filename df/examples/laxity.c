/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Least laxity first: of the members that have something to do by a deadline, the one that can least afford to wait goes
 * first.
 *
 * Each thread publishes, in ns, by when it is to be done and how much CPU time it needs for that in sum:
 *
 *     state = { deadline = 0, done_at = 0 }
 *
 * deadline   CLOCK_MONOTONIC; 0: it has none, and goes last
 * done_at    what its CPU time will have come to when it is done; it reads how much it has had in its control variable
 */
#include <consort_df.h>

/* Whoever waits loses laxity, and whoever runs does not: look again before that has come to much. */
#define LOOK_AGAIN_NS 1000000
/* Laxity is negative for one that is too late already; keys are not. */
#define LATE_MAX_NS (1LL << 60)

unsigned long long df_key(struct df_group *g, unsigned int i)
{
	struct df_member *m = &g->member[i];
	long long left_ns, laxity_ns;

	g->ask_after_ns = LOOK_AGAIN_NS;
	m->control[0] = m->ran_ns;
	if (m->state[0] <= 0)
		return DF_NO_OPINION;
	left_ns = m->state[1] - (long long)m->ran_ns;
	if (left_ns < 0)
		left_ns = 0;
	laxity_ns = m->state[0] - (long long)g->now_ns - left_ns;
	if (laxity_ns < -LATE_MAX_NS)
		laxity_ns = -LATE_MAX_NS;
	if (laxity_ns > LATE_MAX_NS)
		laxity_ns = LATE_MAX_NS;
	return laxity_ns + LATE_MAX_NS;
}
