/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A bounded queue of frames between two threads. */
#ifndef PIPELINE_QUEUE_H
#define PIPELINE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <libavutil/frame.h>

struct queue;

/* Called with its lock held when the level has changed. */
typedef void (*queue_tell)(void *data, uint32_t level);

/* NULL: out of memory. */
struct queue *queue_create(uint32_t capacity);
/* Frees the frames that are left, too; accepts NULL. No thread uses it any more. */
void queue_destroy(struct queue *queue);

/* The stage that is told of the level from now on; NULL: none. */
void queue_watch(struct queue *queue, queue_tell tell, void *data);

/* Waits for room, and takes the frame over. False when the queue was closed: the frame is freed. */
bool queue_put(struct queue *queue, AVFrame *frame);
/* Waits for a frame, which is the caller's then; NULL when the queue was closed and is empty. */
AVFrame *queue_take(struct queue *queue);
/* Waits until so many frames are there, or the queue was closed. */
void queue_await(struct queue *queue, uint32_t level);

/* Nobody puts anything more; those that wait go on. */
void queue_close(struct queue *queue);
/* The same, and what is there is of no use any more. */
void queue_drop(struct queue *queue);

/* The highest and the lowest level that a taker has met, once the first frame was taken. */
uint32_t queue_highest(struct queue *queue);
uint32_t queue_lowest(struct queue *queue);

#endif
