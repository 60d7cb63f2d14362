/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A video file as decoded frames in display order, from the beginning again at its end. */
#ifndef PIPELINE_FILM_H
#define PIPELINE_FILM_H

#include <stddef.h>

#include <libavutil/frame.h>

struct film;

/* Returns NULL and says why in error. */
struct film *film_open(const char *path, char *error, size_t error_bytes);
void film_close(struct film *film); /* accepts NULL */

int film_width(const struct film *film);
int film_height(const struct film *film);
double film_frames_per_s(const struct film *film);

/* The next frame, the caller's; NULL if none can be decoded any more. */
AVFrame *film_next(struct film *film);

#endif
