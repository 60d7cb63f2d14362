/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "film.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

struct film {
	AVFormatContext *format;
	AVCodecContext *codec;
	AVPacket *packet;
	int stream;
	bool ended; /* the decoder has all packets up to the end */
};

static struct film *fail(struct film *film, char *error, size_t error_bytes, const char *what)
{
	snprintf(error, error_bytes, "%s", what);
	film_close(film);
	return NULL;
}

static bool open_codec(struct film *f, const AVCodecParameters *parameters)
{
	const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);

	if (!codec)
		return false;
	f->codec = avcodec_alloc_context3(codec);
	f->packet = av_packet_alloc();
	if (!f->codec || !f->packet || avcodec_parameters_to_context(f->codec, parameters) < 0)
		return false;
	/* The pipeline's threads are all that there is to schedule. */
	f->codec->thread_count = 1;
	return avcodec_open2(f->codec, codec, NULL) >= 0;
}

struct film *film_open(const char *path, char *error, size_t error_bytes)
{
	struct film *f = calloc(1, sizeof(*f));

	if (!f)
		return fail(f, error, error_bytes, "out of memory");
	if (avformat_open_input(&f->format, path, NULL, NULL) < 0)
		return fail(f, error, error_bytes, "the file cannot be opened as a video");
	if (avformat_find_stream_info(f->format, NULL) < 0)
		return fail(f, error, error_bytes, "the file is damaged");
	f->stream = av_find_best_stream(f->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
	if (f->stream < 0)
		return fail(f, error, error_bytes, "the file has no video");
	if (!open_codec(f, f->format->streams[f->stream]->codecpar))
		return fail(f, error, error_bytes, "this libavcodec cannot decode the video");
	return f;
}

void film_close(struct film *f)
{
	if (!f)
		return;
	av_packet_free(&f->packet);
	avcodec_free_context(&f->codec);
	avformat_close_input(&f->format);
	free(f);
}

int film_width(const struct film *f)
{
	return f->codec->width;
}

int film_height(const struct film *f)
{
	return f->codec->height;
}

double film_frames_per_s(const struct film *f)
{
	double rate = av_q2d(f->format->streams[f->stream]->avg_frame_rate);

	return rate > 0 ? rate : 24;
}

/* Gives the decoder its next packet, or lets it release what it still has. */
static void feed(struct film *f)
{
	while (av_read_frame(f->format, f->packet) >= 0) {
		bool is_video = f->packet->stream_index == f->stream;

		/* A damaged packet is left out. */
		if (is_video)
			avcodec_send_packet(f->codec, f->packet);
		av_packet_unref(f->packet);
		if (is_video)
			return;
	}
	avcodec_send_packet(f->codec, NULL);
	f->ended = true;
}

static bool rewind_film(struct film *f)
{
	avcodec_flush_buffers(f->codec);
	f->ended = false;
	return av_seek_frame(f->format, f->stream, 0, AVSEEK_FLAG_BACKWARD) >= 0;
}

AVFrame *film_next(struct film *f)
{
	AVFrame *frame = av_frame_alloc();
	bool has_rewound = false;

	while (frame && avcodec_receive_frame(f->codec, frame) < 0) {
		if (!f->ended) {
			feed(f);
		} else if (has_rewound || !rewind_film(f)) {
			av_frame_free(&frame);
		} else {
			has_rewound = true;
		}
	}
	return frame;
}
