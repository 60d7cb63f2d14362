/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Decodes pictures in steps of bounded length.
 *
 * libavcodec runs as a coroutine. It calls back after each row of macroblocks; there the decoder leaves it
 * if one more row might take longer than the step may. A step is thus one row at least; how long a row takes is
 * the encoder's choice (about 0.4 ms of 7 ms for a 480x270 picture on a machine of 500 MIPS).
 *
 * The picture is taken when it is decoded, not when libavcodec releases it: libavcodec holds pictures back to
 * release them in display order, which is late by several pictures, and the player orders them anyway.
 */
#ifndef PLAY_DECODER_H
#define PLAY_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>

struct decoder;

enum decoder_state {
	DECODER_IDLE, /* give it a picture with decoder_begin() */
	DECODER_BUSY, /* decoder_step() goes on */
	DECODER_DONE, /* take the frame with decoder_take() */
};

/* step_ns: how long a step may take. Returns NULL and says why in error. */
struct decoder *decoder_create(const AVCodecParameters *parameters, uint64_t step_ns, char *error,
			       size_t error_bytes);
void decoder_destroy(struct decoder *decoder); /* accepts NULL */

/*
 * When idle: takes over the packet's content. fresh: forget all pictures before it.
 */
void decoder_begin(struct decoder *decoder, AVPacket *packet, bool fresh);
enum decoder_state decoder_step(struct decoder *decoder);
enum decoder_state decoder_state(const struct decoder *decoder);

/* When done: the decoded frame, the caller's; NULL if the packet was damaged. Idle afterwards. */
AVFrame *decoder_take(struct decoder *decoder);

/* Part of the current picture that is decoded, 0 to 1. */
double decoder_progress(const struct decoder *decoder);

/* Longest row so far: no step can be bounded below it. */
uint64_t decoder_row_ns_max(const struct decoder *decoder);

#endif
