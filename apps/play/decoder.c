/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "decoder.h"

#include <stdio.h>
#include <stdlib.h>

#include <consort.h>

#include "coroutine.h"

struct decoder {
	AVCodecContext *codec;
	struct coroutine *coroutine;
	enum decoder_state state;
	AVPacket *packet;
	AVFrame *frame; /* of the packet being decoded */
	AVFrame *released; /* what libavcodec releases, taken long before */
	uint64_t step_ns;
	uint64_t step_started_ns;
	uint64_t part_started_ns;
	uint64_t part_ns; /* expected of the next */
	uint64_t part_ns_max;
};

/* Time that the next part may take: the longest recent one, forgotten slowly. */
static uint64_t expected_ns(uint64_t expected, uint64_t measured)
{
	return measured > expected ? measured : expected - expected / 8;
}

/* libavcodec has decoded some lines, or with a height of 0 (in build-ffmpeg's libraries) some macroblocks. */
static void part_is_decoded(AVCodecContext *codec, const AVFrame *frame,
			    int offset[AV_NUM_DATA_POINTERS], int y, int type, int height)
{
	struct decoder *d = codec->opaque;
	uint64_t now_ns = consort_now_ns();
	uint64_t part_ns = now_ns - d->part_started_ns;

	(void)frame;
	(void)offset;
	(void)type;
	(void)y;
	(void)height;
	d->part_ns = expected_ns(d->part_ns, part_ns);
	if (part_ns > d->part_ns_max)
		d->part_ns_max = part_ns;
	if (now_ns + d->part_ns - d->step_started_ns > d->step_ns) {
		coroutine_leave(d->coroutine);
		now_ns = consort_now_ns();
	}
	d->part_started_ns = now_ns;
}

/* libavcodec asks for memory to decode into: keep a reference to it. */
static int keep_frame(AVCodecContext *codec, AVFrame *frame, int flags)
{
	struct decoder *d = codec->opaque;
	int code = avcodec_default_get_buffer2(codec, frame, flags);

	if (code < 0)
		return code;
	av_frame_free(&d->frame);
	d->frame = av_frame_clone(frame);
	return d->frame ? 0 : AVERROR(ENOMEM);
}

/* The coroutine's body: one packet. */
static void decode_packet(void *data)
{
	struct decoder *d = data;

	/* Errors need no look: a damaged picture has no frame, or libavcodec has concealed the damage. */
	avcodec_send_packet(d->codec, d->packet);
	while (avcodec_receive_frame(d->codec, d->released) >= 0)
		av_frame_unref(d->released);
	av_packet_unref(d->packet);
}

static struct decoder *fail(struct decoder *decoder, char *error, size_t error_bytes,
			    const char *what)
{
	snprintf(error, error_bytes, "%s", what);
	decoder_destroy(decoder);
	return NULL;
}

struct decoder *decoder_create(const AVCodecParameters *parameters, uint64_t step_ns, char *error,
			       size_t error_bytes)
{
	const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
	struct decoder *d = calloc(1, sizeof(*d));

	if (!d)
		return fail(d, error, error_bytes, "out of memory");
	if (!codec)
		return fail(d, error, error_bytes, "this libavcodec has no H.264 decoder");
	d->step_ns = step_ns;
	d->codec = avcodec_alloc_context3(codec);
	d->packet = av_packet_alloc();
	d->released = av_frame_alloc();
	d->coroutine = coroutine_create(decode_packet, d);
	if (!d->codec || !d->packet || !d->released || !d->coroutine)
		return fail(d, error, error_bytes, "out of memory");
	if (avcodec_parameters_to_context(d->codec, parameters) < 0)
		return fail(d, error, error_bytes, "the video's parameters are damaged");
	d->codec->opaque = d;
	d->codec->thread_count = 1;
	/* Guessing what is missing takes many times longer than an event may. */
	d->codec->error_concealment = 0;
	d->codec->get_buffer2 = keep_frame;
	d->codec->draw_horiz_band = part_is_decoded;
	if (avcodec_open2(d->codec, codec, NULL) < 0)
		return fail(d, error, error_bytes, "libavcodec cannot decode this video");
	return d;
}

void decoder_destroy(struct decoder *d)
{
	if (!d)
		return;
	/* libavcodec cannot be closed in the middle of a picture. */
	while (d->state == DECODER_BUSY)
		decoder_step(d);
	coroutine_destroy(d->coroutine);
	av_frame_free(&d->frame);
	av_frame_free(&d->released);
	av_packet_free(&d->packet);
	avcodec_free_context(&d->codec);
	free(d);
}

void decoder_begin(struct decoder *d, AVPacket *packet)
{
	av_packet_move_ref(d->packet, packet);
	d->part_ns = 0;
	d->state = DECODER_BUSY;
}

void decoder_warm_up(struct decoder *d, const AVPacket *packet)
{
	AVFrame *frame;

	if (av_packet_ref(d->packet, packet) < 0)
		return;
	d->state = DECODER_BUSY;
	while (decoder_step(d) == DECODER_BUSY)
		;
	frame = decoder_take(d);
	av_frame_free(&frame);
	d->part_ns_max = 0;
}

enum decoder_state decoder_step(struct decoder *d)
{
	if (d->state != DECODER_BUSY)
		return d->state;
	d->step_started_ns = consort_now_ns();
	d->part_started_ns = d->step_started_ns;
	if (coroutine_enter(d->coroutine))
		d->state = DECODER_DONE;
	return d->state;
}

enum decoder_state decoder_state(const struct decoder *d)
{
	return d->state;
}

AVFrame *decoder_take(struct decoder *d)
{
	AVFrame *frame = d->frame;

	d->frame = NULL;
	d->state = DECODER_IDLE;
	return frame;
}

uint64_t decoder_part_ns_max(const struct decoder *d)
{
	return d->part_ns_max;
}
