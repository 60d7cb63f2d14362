/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A robot's loop of two stages, with modes: member 0 reads the sensors, member 1 plans a path from what they say, member 2 is
 * the reflex that stops the robot.
 *
 *     members = ["sense", "plan", "reflex"]
 *     state = { value = 0 }
 *
 * sense.value    how many readings wait for the planner
 * reflex.value   how near the nearest obstacle is, in mm; 0: there is none. Who measures it should write it, by a handle of
 *                consort_share_state(): beside a busy planner the reflex runs only when it is known to be needed
 *
 * Cruising, the planner takes what there is, and the sensors fill up when there is nothing to take: two stages, of which
 * neither waits for the other. In danger the reflex goes first, then the sensors, and the planner only when nobody else wants
 * the CPU. The robot is in danger when an obstacle is nearer than NEAR_MM, until none has been nearer than FAR_MM for CALM_NS.
 * Every member reads the mode in its control variable.
 */
#include <consort_df.h>

enum { SENSE, PLAN, REFLEX };
enum { CRUISE, DANGER };

#define NEAR_MM 300
#define FAR_MM 500
#define CALM_NS 50000000
#define READINGS_FULL 8

/* What is kept from one answer to the next. */
#define MODE memory[0]
#define NEAR_AT_NS memory[1] /* when an obstacle was last nearer than FAR_MM */

static inline void look_at_mode(struct df_group *g)
{
	long long distance_mm = g->member[REFLEX].state[0];
	int is_far = distance_mm <= 0 || distance_mm >= FAR_MM;

	if (!is_far)
		g->NEAR_AT_NS = g->now_ns;
	if (distance_mm > 0 && distance_mm < NEAR_MM)
		g->MODE = DANGER;
	else if (is_far && (long long)g->now_ns - g->NEAR_AT_NS > CALM_NS)
		g->MODE = CRUISE;
}

static inline int wants(const struct df_group *g, unsigned int i)
{
	return g->member[i].flags & DF_WANTS;
}

long df_pick(struct df_group *g)
{
	long long readings = g->member[SENSE].state[0];

	look_at_mode(g);
	g->member[SENSE].control[0] = g->MODE;
	g->member[PLAN].control[0] = g->MODE;
	g->member[REFLEX].control[0] = g->MODE;
	if (g->MODE == DANGER) {
		/* It may be calm again before anything happens. */
		g->ask_after_ns = CALM_NS;
		if (wants(g, REFLEX))
			return REFLEX;
		return wants(g, SENSE) ? SENSE : wants(g, PLAN) ? PLAN : -1;
	}
	if (wants(g, PLAN) && readings > 0 && (readings >= READINGS_FULL || !wants(g, SENSE)))
		return PLAN;
	if (wants(g, SENSE) && readings < READINGS_FULL)
		return SENSE;
	return wants(g, PLAN) ? PLAN : wants(g, REFLEX) ? REFLEX : -1;
}
