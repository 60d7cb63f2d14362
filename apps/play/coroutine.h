/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A second stack inside one thread.
 *
 * Problem: libavcodec decodes a whole frame in one call, which is far longer than an event may be.
 * Rule: the call is made on a stack of its own. Whatever libavcodec calls back meanwhile may leave
 * that stack with coroutine_leave(), and the next coroutine_enter() goes on where it left.
 * Limits: no locks may be held across coroutine_leave(), since the thread goes on with other work;
 * libavcodec holds none where it calls back without threads.
 */
#ifndef PLAY_COROUTINE_H
#define PLAY_COROUTINE_H

#include <stdbool.h>

struct coroutine;

/* Makes a coroutine that will call body(data) when first entered. NULL when memory is short. */
struct coroutine *coroutine_create(void (*body)(void *data), void *data);

/* Runs the coroutine until it leaves or its body returns. True when the body has returned; the next
 * enter then calls the body anew. */
bool coroutine_enter(struct coroutine *coroutine);

/* From inside the body: back to the caller of coroutine_enter(). */
void coroutine_leave(struct coroutine *coroutine);

/* Accepts NULL. What the body still holds is not freed. */
void coroutine_destroy(struct coroutine *coroutine);

#endif
