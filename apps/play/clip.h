/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A video file as a queue of coded pictures, each with its place on the screen and its importance. */
#ifndef PLAY_CLIP_H
#define PLAY_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>

/*
 * What depends on a picture; smaller is more important. A group of pictures starts with a KEY one;
 * whatever is left out harms only pictures of its own group that are less important or come later.
 */
enum importance {
	IMPORTANCE_KEY, /* decodable alone; everything up to the next one depends on it */
	IMPORTANCE_ANCHOR, /* P: the rest of the group depends on it */
	IMPORTANCE_INNER, /* B that other B pictures depend on, up to the next anchor */
	IMPORTANCE_LEAF, /* B that nothing depends on */
	IMPORTANCE_LEVELS,
};

struct picture {
	AVPacket *packet;
	int64_t frame; /* frame number in display order; negative: before the start, never shown */
	enum importance importance;
	bool seek; /* does not follow the picture before it: the decoder starts afresh */
};

struct clip;

/*
 * Opens the file's video, from start_ns on. With loop, it starts again at its end, for ever. Returns NULL
 * and says why in error (error_bytes long).
 */
struct clip *clip_open(const char *path, uint64_t start_ns, bool loop, char *error,
		       size_t error_bytes);
void clip_close(struct clip *clip); /* accepts NULL */

const AVCodecParameters *clip_parameters(const struct clip *clip);
AVRational clip_frames_per_s(const struct clip *clip);

/* The next picture in decoding order; NULL at the end of the clip. Stays the clip's. */
const struct picture *clip_head(struct clip *clip);
void clip_drop_head(struct clip *clip);

/* The first key picture after the head that was read ahead; NULL if none is in sight. */
const struct picture *clip_next_key(const struct clip *clip);

/* Number of the frame after the last; INT64_MAX while the end was not read. */
int64_t clip_end_frame(const struct clip *clip);

/* Packets that could not be read or understood. */
uint64_t clip_damaged(const struct clip *clip);

#endif
