/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A waiting line: first come, first served; links live inside the queued objects, and are those of a heap.
 *
 * Problem  Where keys only grow, a heap pays for an order that is there already.
 * Rule     A list, linked both ways: whoever comes goes to the end, with a key not before the last one's; anybody may
 *          leave from the middle.
 * Bound    Every operation takes constant time.
 * Limits   A key that is before the last one's is served late, by no more than their difference.
 */
#ifndef CORE_LINE_H
#define CORE_LINE_H

#include "heap.h"

struct line {
	struct heap_link __arena *first;
	struct heap_link __arena *last;
};

/* A link's `left` is the next one, its `right` the one before. */
static __always_inline void line_append(struct line __arena *line, struct heap_link __arena *l,
					u64 major)
{
	struct heap_link __arena *last = line->last;

	l->left = NULL;
	l->right = last;
	l->major = major;
	l->queued = 1;
	if (last)
		last->left = l;
	else
		line->first = l;
	line->last = l;
}

static __always_inline void line_remove(struct line __arena *line, struct heap_link __arena *l)
{
	struct heap_link __arena *next = l->left, *before = l->right;

	if (before)
		before->left = next;
	else
		line->first = next;
	if (next)
		next->right = before;
	else
		line->last = before;
	l->queued = 0;
}

#endif
