/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Pipeline: stages that are joined by bounded queues take turns by what is in these.
 *
 * Problem  A pipeline's last stage must never find its queue empty; whoever fills it must not take the CPU for what is not
 *          needed yet, nor switch for each item.
 * Rule     Each stage publishes the level of the queue behind it. A queue is filled up to its high mark; then it is drained
 *          by a step before it is filled again. Of the stages that wait, with something to do, the first in the order
 *          is the one farthest upstream whose queue is filled; if there is none, the one farthest downstream. One whose
 *          queue has come to its mark goes last. Where a stage is to run in its interval and finds nothing in its queue,
 *          the nearest one upstream that has something to do runs in its stead, in that interval. Plans begin when the
 *          last stage's queue has come to the bootstrap level.
 * Bound    While another stage waits that has something to do, none is chosen whose queue is at its mark: levels stay below
 *          their marks and what a stage makes until it is compared. A filled pipeline changes stages once in a step.
 * Source   003 section 3.3, Program 3.3: bootstrap, Fill Queue, Drain.
 * Limits   Levels are what the stages say, looked at when one of them gives the CPU up. Where no other member wants the CPU
 *          a stage goes on beyond its mark: the queue's own bound stops it.
 */
#ifndef CORE_FUNCTION_PIPELINE_H
#define CORE_FUNCTION_PIPELINE_H

#include "../role.h"

/* The order of stages: within each kind by number. */
#define PIPELINE_FILLS 0
#define PIPELINE_DRAINS ROLES_MAX
#define PIPELINE_REST (2 * ROLES_MAX) /* no stage, or one with nothing to do */
#define PIPELINE_IS_FULL (3 * ROLES_MAX)

/* Whatever a stage says. */
#define LEVEL_MAX 0x7fffffff

static __always_inline u32 pipeline_level(const struct role __arena *r)
{
	s64 level = r->state[0];

	return level < 0 ? 0 : level > LEVEL_MAX ? LEVEL_MAX : level;
}

/* The place of a stage that has `input` in the queue before it. */
core_fn pipeline_rank(struct role __arena *r in_arena, u32 input)
{
	u32 level = pipeline_level(r);

	if (!r->high)
		return input ? PIPELINE_DRAINS + ROLES_MAX - 1 - r->number :
			       PIPELINE_REST + r->number;
	if (level >= r->high)
		r->is_filled = 1;
	else if (level + r->step <= r->high)
		r->is_filled = 0;
	if (level >= r->high)
		return PIPELINE_IS_FULL + r->number;
	if (!input)
		return PIPELINE_REST + r->number;
	return r->is_filled ? PIPELINE_DRAINS + ROLES_MAX - 1 - r->number :
			      PIPELINE_FILLS + r->number;
}

/* Plans have waited for the pipeline to be filled: they begin as much later. */
static __always_inline void pipeline_boot(struct function __arena *f, u64 now_ns)
{
	u64 zero_ns = f->zero_ns;

	f->is_booted = 1;
	if (zero_ns != NEVER_NS && now_ns > f->begun_ns)
		f->zero_ns = zero_ns + (now_ns - f->begun_ns);
}

/* Nobody runs in the stage's stead, but who `able` is, upstream, if it has nothing to do in its interval. */
core_fn pipeline_stand_in(struct role __arena *r in_arena, struct role __arena *able in_arena,
			  u32 input, u64 now_ns)
{
	r->stead_until_ns = 0;
	if (input || !able || now_ns < r->from_ns || now_ns >= r->until_ns || r->is_done)
		return 0;
	able->stead_from_ns = r->from_ns;
	able->stead_until_ns = r->until_ns;
	return 0;
}

/*
 * Looks at the levels: where each stage stands, and who runs in whose stead. Returns whether plans begin with that.
 */
core_fn pipeline_look(struct function __arena *f in_arena, u64 now_ns)
{
	struct role __arena *r = f->roles, *end = r + f->nr_roles, *able = NULL;
	u32 input = LEVEL_MAX;

	/* By addresses: the verifier would go through a loop over numbers as many times as there may be roles. */
	while (can_loop) {
		if (r == end)
			break;
		if (r->step) {
			r->rank = pipeline_rank(r, input);
			pipeline_stand_in(r, able, input, now_ns);
			able = input ? r : able;
			f->last_input = input;
			input = pipeline_level(r);
		}
		r++;
	}
	if (f->is_booted || f->last_input < f->bootstrap)
		return 0;
	pipeline_boot(f, now_ns);
	return 1;
}

#endif
