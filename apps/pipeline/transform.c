/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "transform.h"

#include <string.h>

/* No film is wider. */
#define WIDTH_MAX 16384

/* One line from itself and its neighbours as they were. */
static void smooth_line(uint8_t *line, const uint8_t *above, const uint8_t *below, int width)
{
	uint8_t left = line[0];

	for (int x = 1; x + 1 < width; x++) {
		uint8_t own = line[x];

		line[x] = (uint8_t)((left + line[x + 1] + above[x] + below[x] + 4 * own) / 8);
		left = own;
	}
}

static void smooth(AVFrame *frame)
{
	static _Thread_local uint8_t above[WIDTH_MAX], own[WIDTH_MAX];
	int width = frame->width < WIDTH_MAX ? frame->width : WIDTH_MAX;

	memcpy(above, frame->data[0], (size_t)width);
	for (int y = 1; y + 1 < frame->height; y++) {
		uint8_t *line = frame->data[0] + (ptrdiff_t)y * frame->linesize[0];

		memcpy(own, line, (size_t)width);
		smooth_line(line, above, line + frame->linesize[0], width);
		memcpy(above, own, (size_t)width);
	}
}

bool transform(AVFrame *frame, uint32_t passes)
{
	/* The decoder may still need the picture as it was. */
	if (av_frame_make_writable(frame) < 0)
		return false;
	while (passes--)
		smooth(frame);
	return true;
}
