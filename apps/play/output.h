/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where frames are shown: a window, or nowhere. */
#ifndef PLAY_OUTPUT_H
#define PLAY_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavutil/frame.h>

/*
 * A frame is prepared (converted to the screen's colours) in steps of bounded length before it is due, and then
 * only handed over at its due time.
 */
struct output {
	/* Goes on preparing the frame for at most about step_ns; true when it is ready to be shown. */
	bool (*prepare)(struct output *output, const AVFrame *frame, uint64_t step_ns);
	/* Shows what was prepared last. */
	void (*show)(struct output *output);
	/* File descriptor to watch for input, or -1; and what to do then: false when the user closed it. */
	int (*fd)(const struct output *output);
	bool (*input)(struct output *output);
	void (*close)(struct output *output);
};

/* Shows nothing; cannot fail. */
struct output *output_open_none(void);

/* A window of width x height. NULL, with the reason in error, if there is no display. */
struct output *output_open_x11(int width, int height, const char *title, char *error,
			       size_t error_bytes);

#endif
