/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A streaming thread as a member: its name is that of the element whose loop it runs. */
#ifndef GSTREAMER_STAGE_H
#define GSTREAMER_STAGE_H

#include <gst/gst.h>

/* All of these are about the calling thread. */

/* It begins to run the loop of that element. */
void stage_enter(GstElement *element);
/* It runs it no longer. */
void stage_leave(void);

/* It has put something into a queue: the first CONSORT_VARIABLES that it fills are its state variables. */
void stage_filled(GstElement *queue);
/* What the element made has come to its end in this thread: in a queue, or in a sink that has shown it. */
void stage_pushed(GstElement *element);

#endif
