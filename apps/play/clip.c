/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "clip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <libavformat/avformat.h>

#include "importance.h"

/* Pictures read ahead: enough to see the next key picture of groups up to about five seconds. */
#define AHEAD_MAX 128
/* Damaged packets in a row after which the rest of the file is given up. */
#define DAMAGED_MAX 1000
/* A timestamp this far from its neighbour's is damage, not video. */
#define JUMP_MAX_S 10
/* More is not video either, and would make events shorter than their bookkeeping. */
#define FRAMES_PER_S_MAX 1000

struct clip {
	AVFormatContext *format;
	AVStream *stream;
	AVRational frames_per_s;
	int64_t start_frame; /* in the file; the clip's frame 0 */
	int64_t base_frame; /* added to the file's frame numbers in this round */
	int64_t newest_frame; /* highest frame number read */
	bool loop;
	bool ended;
	bool after_seek;
	uint64_t damaged;
	unsigned damaged_in_a_row;
	unsigned first, count; /* of the ring */
	struct picture ring[AHEAD_MAX];
};

static struct clip *fail(struct clip *clip, char *error, size_t error_bytes, const char *what,
			 int code)
{
	if (code)
		snprintf(error, error_bytes, "%s: %s", what, av_err2str(code));
	else
		snprintf(error, error_bytes, "%s", what);
	clip_close(clip);
	return NULL;
}

/* libavformat would wait at a pipe and see an empty file in a folder. */
static const char *not_a_file(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return strerror(errno);
	if (S_ISDIR(st.st_mode))
		return "this is a folder; name a video file in it";
	if (!S_ISREG(st.st_mode))
		return "not a regular file; copy the video to a file first";
	return NULL;
}

static const char *choose_stream(struct clip *clip)
{
	int index = av_find_best_stream(clip->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);

	if (index < 0)
		return "there is no video in this file";
	clip->stream = clip->format->streams[index];
	if (clip->stream->codecpar->codec_id != AV_CODEC_ID_H264)
		return "the video is not H.264; convert it: ffmpeg -i FILE -c:v libx264 out.mp4";
	clip->frames_per_s = clip->stream->avg_frame_rate;
	if (clip->frames_per_s.num <= 0 || clip->frames_per_s.den <= 0 ||
	    av_q2d(clip->frames_per_s) > FRAMES_PER_S_MAX)
		return "the file names no frame rate between 0 and 1000 per second; it is damaged";
	for (unsigned i = 0; i < clip->format->nb_streams; i++)
		if (clip->format->streams[i] != clip->stream)
			clip->format->streams[i]->discard = AVDISCARD_ALL;
	return NULL;
}

/* Timestamp of the file's first frame. */
static int64_t first_timestamp(const struct clip *clip)
{
	return clip->stream->start_time == AV_NOPTS_VALUE ? 0 : clip->stream->start_time;
}

/* Frame number in the file of a timestamp of the stream. */
static int64_t frame_of(const struct clip *clip, int64_t timestamp)
{
	return av_rescale_q(timestamp - first_timestamp(clip), clip->stream->time_base,
			    av_inv_q(clip->frames_per_s));
}

static int seek(struct clip *clip, int64_t frame)
{
	int64_t offset = av_rescale_q(frame, av_inv_q(clip->frames_per_s), clip->stream->time_base);

	clip->after_seek = true;
	return av_seek_frame(clip->format, clip->stream->index, first_timestamp(clip) + offset,
			     AVSEEK_FLAG_BACKWARD);
}

struct clip *clip_open(const char *path, uint64_t start_ns, bool loop, char *error,
		       size_t error_bytes)
{
	struct clip *clip = calloc(1, sizeof(*clip));
	const char *wrong = not_a_file(path);
	int code;

	if (!clip)
		return fail(NULL, error, error_bytes, "out of memory", 0);
	clip->loop = loop;
	clip->newest_frame = -1;
	if (wrong)
		return fail(clip, error, error_bytes, wrong, 0);
	code = avformat_open_input(&clip->format, path, NULL, NULL);
	if (code < 0)
		return fail(clip, error, error_bytes, "not a video file that can be read", code);
	code = avformat_find_stream_info(clip->format, NULL);
	if (code < 0)
		return fail(clip, error, error_bytes, "the video's header is damaged", code);
	wrong = choose_stream(clip);
	if (wrong)
		return fail(clip, error, error_bytes, wrong, 0);
	clip->start_frame = av_rescale_q((int64_t)start_ns, (AVRational){1, 1000000000},
					 av_inv_q(clip->frames_per_s));
	clip->base_frame = -clip->start_frame;
	if (clip->stream->duration > 0 &&
	    clip->start_frame >= frame_of(clip, first_timestamp(clip) + clip->stream->duration))
		return fail(clip, error, error_bytes, "--start lies beyond the end of the video",
			    0);
	code = seek(clip, clip->start_frame);
	if (code < 0)
		return fail(clip, error, error_bytes, "cannot seek to --start", code);
	if (!clip_head(clip))
		return fail(clip, error, error_bytes,
			    "no picture can be read from --start on; is the file cut off?", 0);
	return clip;
}

void clip_close(struct clip *clip)
{
	if (!clip)
		return;
	while (clip->count)
		clip_drop_head(clip);
	avformat_close_input(&clip->format);
	free(clip);
}

const AVCodecParameters *clip_parameters(const struct clip *clip)
{
	return clip->stream->codecpar;
}

AVRational clip_frames_per_s(const struct clip *clip)
{
	return clip->frames_per_s;
}

/* False if the packet is of no use. */
static bool understand(struct clip *clip, AVPacket *packet, struct picture *out)
{
	int64_t jump_max = (int64_t)(JUMP_MAX_S * av_q2d(clip->frames_per_s)) + 1;
	int64_t jump;

	if (packet->flags & AV_PKT_FLAG_CORRUPT || packet->pts == AV_NOPTS_VALUE)
		return false;
	if (!importance_of(packet, clip->stream->codecpar, &out->importance))
		return false;
	out->frame = clip->base_frame + frame_of(clip, packet->pts);
	jump = out->frame - clip->newest_frame;
	if (!clip->after_seek && (jump > jump_max || jump < -jump_max))
		return false;
	out->packet = packet;
	out->seek = clip->after_seek;
	return true;
}

/* Starts the next round; false if there is none. A round without a picture would go on for ever. */
static bool rewind_clip(struct clip *clip)
{
	if (!clip->loop || clip->after_seek || seek(clip, 0) < 0)
		return false;
	clip->base_frame = clip->newest_frame + 1;
	return true;
}

static void read_one(struct clip *clip)
{
	AVPacket *packet = av_packet_alloc();
	struct picture picture;

	if (!packet || av_read_frame(clip->format, packet) < 0) {
		av_packet_free(&packet);
		clip->ended = !rewind_clip(clip);
		return;
	}
	if (packet->stream_index != clip->stream->index) {
		av_packet_free(&packet);
		return;
	}
	if (!understand(clip, packet, &picture)) {
		av_packet_free(&packet);
		clip->damaged++;
		clip->ended = ++clip->damaged_in_a_row >= DAMAGED_MAX;
		return;
	}
	clip->after_seek = false;
	clip->damaged_in_a_row = 0;
	if (picture.frame > clip->newest_frame)
		clip->newest_frame = picture.frame;
	clip->ring[(clip->first + clip->count++) % AHEAD_MAX] = picture;
}

const struct picture *clip_head(struct clip *clip)
{
	while (!clip->ended && clip->count < AHEAD_MAX)
		read_one(clip);
	return clip->count ? &clip->ring[clip->first] : NULL;
}

void clip_drop_head(struct clip *clip)
{
	if (!clip->count)
		return;
	av_packet_free(&clip->ring[clip->first].packet);
	clip->first = (clip->first + 1) % AHEAD_MAX;
	clip->count--;
}

const struct picture *clip_next_key(const struct clip *clip)
{
	for (unsigned i = 1; i < clip->count; i++) {
		const struct picture *picture = &clip->ring[(clip->first + i) % AHEAD_MAX];

		if (picture->importance == IMPORTANCE_KEY)
			return picture;
	}
	return NULL;
}

int64_t clip_end_frame(const struct clip *clip)
{
	return clip->ended ? clip->newest_frame + 1 : INT64_MAX;
}

uint64_t clip_damaged(const struct clip *clip)
{
	return clip->damaged;
}
