/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What became of the frames: JSON lines to a log, one line of text to a person. */
#ifndef PIPELINE_REPORT_H
#define PIPELINE_REPORT_H

#include <stdio.h>

#include "display.h"

/* A line for each frame, and one of type "summary". The error is how far from its due time a frame was submitted. */
void report_write(FILE *log, const struct display *display, struct queue *last);

/* To stdout. */
void report_say(const struct display *display);

#endif
