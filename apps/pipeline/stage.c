/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stage.h"

#include <stdio.h>

/* State variables of a stage, in the order of the group file: see groups.c. */
enum { PUT, TAKEN };

static void *run(void *data)
{
	struct stage *stage = data;

	pthread_setname_np(pthread_self(), stage->name);
	if (stage->announces && consort_announce(stage->name, &stage->member) < 0)
		fprintf(stderr, "consort-pipeline: warning: %s: %s\n", stage->name,
			consort_last_error_text());
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
	AVFrame *frame = queue_take(stage->in);

	stage->taken += frame != NULL;
	if (stage->member)
		consort_set_state(stage->member, TAKEN, stage->taken);
	return frame;
}

bool stage_put(struct stage *stage, AVFrame *frame)
{
	bool put = queue_put(stage->out, frame);

	stage->put += put;
	if (stage->member)
		consort_set_state(stage->member, PUT, stage->put);
	return put;
}
