/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A queue for keys that come in order: first come, first served. Links live inside the queued objects; they are those
 * of a heap.
 *
 * Problem  Where keys only grow, a heap pays for an order that is there already.
 * Rule     A list, linked both ways: whoever comes goes to the end, with a key not before the last one's; anybody may
 *          leave from the middle.
 * Bound    Every operation takes constant time.
 * Limits   A key that is before the last one's is served late, by no more than their difference.
 */
#ifndef CORE_FIFO_H
#define CORE_FIFO_H

#include "heap.h"

struct fifo {
	struct heap_link __arena *first;
	struct heap_link __arena *last;
};

/* A link's `left` is the next one, its `right` the one before. */
static __always_inline void fifo_append(struct fifo __arena *fifo, struct heap_link __arena *l,
					u64 major)
{
	struct heap_link __arena *last = fifo->last;

	l->left = NULL;
	l->right = last;
	l->major = major;
	l->minor = 0;
	l->queued = 1;
	if (last)
		last->left = l;
	else
		fifo->first = l;
	fifo->last = l;
}

static __always_inline void fifo_remove(struct fifo __arena *fifo, struct heap_link __arena *l)
{
	struct heap_link __arena *next = l->left, *before = l->right;

	if (before)
		before->left = next;
	else
		fifo->first = next;
	if (next)
		next->right = before;
	else
		fifo->last = before;
	l->queued = 0;
}

#endif
