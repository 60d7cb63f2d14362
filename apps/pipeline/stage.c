/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stage.h"

#include <stdio.h>

/* A stage's state variable in the group file: see groups.c. */
#define QUEUED 0

static void tell_level(void *data, uint32_t level)
{
	consort_shared_state_set(data, level);
}

/* The thread has a name, and its output queue's level is its state. */
static void announce(struct stage *stage)
{
	if (consort_announce(stage->member_name, &stage->member) < 0 ||
	    (stage->out && consort_share_state(stage->member, QUEUED, &stage->level) < 0)) {
		fprintf(stderr, "consort-pipeline: warning: %s: %s\n", stage->member_name,
			consort_last_error_text());
		return;
	}
	if (stage->out)
		queue_watch(stage->out, tell_level, stage->level);
}

static void *run(void *data)
{
	struct stage *stage = data;

	pthread_setname_np(pthread_self(), stage->name);
	if (stage->member_name[0])
		announce(stage);
	stage->run(stage);
	/* Those before it have nobody to work for, those behind it get nothing more. */
	if (stage->in)
		queue_drop(stage->in);
	if (stage->out)
		queue_close(stage->out);
	consort_leave(stage->member);
	return NULL;
}

int stage_begin(struct stage *stage)
{
	int error = pthread_create(&stage->thread, NULL, run, stage);

	stage->has_begun = !error;
	return error;
}

void stage_await(struct stage *stage)
{
	if (stage->has_begun)
		pthread_join(stage->thread, NULL);
	stage->has_begun = false;
}

AVFrame *stage_take(struct stage *stage)
{
	return queue_take(stage->in);
}

bool stage_put(struct stage *stage, AVFrame *frame)
{
	return queue_put(stage->out, frame);
}

void stage_end(struct stage *stage)
{
	consort_shared_state_end(stage->level);
}
