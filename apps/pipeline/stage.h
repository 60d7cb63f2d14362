/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One stage of the pipeline: a thread that takes frames from a queue and puts them into the next one. */
#ifndef PIPELINE_STAGE_H
#define PIPELINE_STAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <consort.h>

#include "queue.h"

#define STAGE_NAME_BYTES 32
#define MEMBER_NAME_BYTES 64

struct stage {
	char name[STAGE_NAME_BYTES]; /* of its thread */
	char member_name[MEMBER_NAME_BYTES]; /* in group files; empty: it announces none */
	struct queue *in; /* NULL: it makes frames itself */
	struct queue *out; /* NULL: it is the last one */
	/* What it does until there is nothing more to do. */
	void (*run)(struct stage *stage);
	void *data;
	struct consort_member *member; /* of its thread; NULL: it has no name */
	struct consort_shared_state *level; /* of its output queue */
	pthread_t thread;
	bool has_begun;
};

/* Starts the stage's thread. Returns 0 or an errno. */
int stage_begin(struct stage *stage);
void stage_await(struct stage *stage);

/* The next frame, the caller's; NULL when there are no more. */
AVFrame *stage_take(struct stage *stage);
/* Hands a frame on. False: nobody wants any more. */
bool stage_put(struct stage *stage, AVFrame *frame);

/* When no stage runs any more. */
void stage_end(struct stage *stage);

#endif
