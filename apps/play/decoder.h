/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Decodes pictures in steps of bounded length.
 *
 * libavcodec runs as a coroutine. It calls back after each row of macroblocks; there the decoder leaves it
 * if one more row might take longer than the step may. A step is thus one row at least. On fast machines that
 * is enough; on one of 500 MIPS a row of a 480x270 picture takes 0.2 ms (B) to 3 ms (key), so build-ffmpeg
 * makes its libavcodec call back every four macroblocks as well.
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

/* Decodes a copy of the packet at once, however long it takes, and forgets it: libavcodec allocates most of its
 * memory with the first picture, which is too long for an event. */
void decoder_warm_up(struct decoder *decoder, const AVPacket *packet);

/* When idle: takes over the packet's content. */
void decoder_begin(struct decoder *decoder, AVPacket *packet);
enum decoder_state decoder_step(struct decoder *decoder);
enum decoder_state decoder_state(const struct decoder *decoder);

/* When done: the decoded frame, the caller's; NULL if the packet was damaged. Idle afterwards. */
AVFrame *decoder_take(struct decoder *decoder);

/* Longest time without a call back so far: no step can be bounded below it. */
uint64_t decoder_part_ns_max(const struct decoder *decoder);

#endif
