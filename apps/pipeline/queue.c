/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint32_t capacity;
	uint32_t first, level;
	uint32_t highest, lowest;
	bool closed;
	queue_tell tell;
	void *data;
	AVFrame *frames[];
};

struct queue *queue_create(uint32_t capacity)
{
	struct queue *q = calloc(1, sizeof(*q) + capacity * sizeof(q->frames[0]));

	if (!q)
		return NULL;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->changed, NULL);
	q->capacity = capacity;
	q->lowest = UINT32_MAX;
	return q;
}

static void empty(struct queue *q)
{
	for (; q->level; q->level--) {
		av_frame_free(&q->frames[q->first]);
		q->first = (q->first + 1) % q->capacity;
	}
}

void queue_destroy(struct queue *q)
{
	if (!q)
		return;
	empty(q);
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->mutex);
	free(q);
}

static void changed(struct queue *q)
{
	if (q->tell)
		q->tell(q->data, q->level);
	pthread_cond_broadcast(&q->changed);
}

void queue_watch(struct queue *q, queue_tell tell, void *data)
{
	pthread_mutex_lock(&q->mutex);
	q->tell = tell;
	q->data = data;
	pthread_mutex_unlock(&q->mutex);
}

bool queue_put(struct queue *q, AVFrame *frame)
{
	bool put;

	pthread_mutex_lock(&q->mutex);
	while (q->level == q->capacity && !q->closed)
		pthread_cond_wait(&q->changed, &q->mutex);
	put = !q->closed;
	if (put)
		q->frames[(q->first + q->level++) % q->capacity] = frame;
	changed(q);
	pthread_mutex_unlock(&q->mutex);
	if (!put)
		av_frame_free(&frame);
	return put;
}

AVFrame *queue_take(struct queue *q)
{
	AVFrame *frame = NULL;

	pthread_mutex_lock(&q->mutex);
	if (q->level < q->lowest && !q->closed)
		q->lowest = q->level;
	while (!q->level && !q->closed)
		pthread_cond_wait(&q->changed, &q->mutex);
	if (q->level > q->highest)
		q->highest = q->level;
	if (q->level) {
		frame = q->frames[q->first];
		q->first = (q->first + 1) % q->capacity;
		q->level--;
	}
	changed(q);
	pthread_mutex_unlock(&q->mutex);
	return frame;
}

void queue_await(struct queue *q, uint32_t level)
{
	pthread_mutex_lock(&q->mutex);
	while (q->level < level && !q->closed)
		pthread_cond_wait(&q->changed, &q->mutex);
	pthread_mutex_unlock(&q->mutex);
}

void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->mutex);
	q->closed = true;
	changed(q);
	pthread_mutex_unlock(&q->mutex);
}

void queue_drop(struct queue *q)
{
	queue_close(q);
	pthread_mutex_lock(&q->mutex);
	empty(q);
	pthread_mutex_unlock(&q->mutex);
}

uint32_t queue_highest(struct queue *q)
{
	return q->highest;
}

uint32_t queue_lowest(struct queue *q)
{
	return q->lowest == UINT32_MAX ? 0 : q->lowest;
}
