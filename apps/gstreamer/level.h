/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How many buffers wait in a queue element: a state variable of the thread that fills it. */
#ifndef GSTREAMER_LEVEL_H
#define GSTREAMER_LEVEL_H

#include <consort.h>
#include <gst/gst.h>

struct level;

/* To be called for each element when it is made: one that says how many buffers it has gets a level. */
void level_add(GstElement *element);
/* The element's level, which lives as long as it; NULL: it has none. */
struct level *level_of(GstElement *element);

/* From now on the level is that state variable of the calling thread's. False: it is another thread's, or is no more. */
gboolean level_claim(struct level *level, struct consort_member *member, guint variable);
/* It is so no longer. */
void level_release(struct level *level);

/* Publishes how many buffers the element has now, if it is claimed. Any thread may. */
void level_tell(struct level *level, GstElement *element);

#endif
