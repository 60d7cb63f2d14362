/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "importance.h"

/* H.264 (ITU-T H.264, 7.3.1, 7.3.3): types of network units and slices. */
#define NAL_SLICE 1
#define NAL_SLICE_IDR 5
#define SLICE_B 1

struct bits {
	const uint8_t *bytes;
	size_t count;
	size_t at;
};

static unsigned next_bit(struct bits *b)
{
	unsigned bit = 0;

	if (b->at < b->count * 8)
		bit = b->bytes[b->at / 8] >> (7 - b->at % 8) & 1;
	b->at++;
	return bit;
}

/* Exponential Golomb code; at most 16 leading zeros, enough for a slice's first two fields. */
static bool next_golomb(struct bits *b, unsigned *out)
{
	unsigned zeros = 0, value = 1;

	while (!next_bit(b))
		if (++zeros > 16)
			return false;
	for (; zeros; zeros--)
		value = value << 1 | next_bit(b);
	*out = value - 1;
	return b->at <= b->count * 8;
}

/* Length of the next unit in an MP4 packet: a big-endian number before it. */
static size_t framed_unit(const uint8_t **at, const uint8_t *end, unsigned length_bytes)
{
	size_t length = 0;

	if ((size_t)(end - *at) < length_bytes)
		return 0;
	for (unsigned i = 0; i < length_bytes; i++)
		length = length << 8 | *(*at)++;
	return length <= (size_t)(end - *at) ? length : 0;
}

/* The same for a byte stream: units start after 00 00 01; the end does not matter for a header. */
static size_t streamed_unit(const uint8_t **at, const uint8_t *end)
{
	for (const uint8_t *p = *at; end - p > 3; p++) {
		if (!p[0] && !p[1] && p[2] == 1) {
			*at = p + 3;
			return (size_t)(end - *at);
		}
	}
	return 0;
}

static bool slice_importance(const uint8_t *unit, size_t bytes, bool key, enum importance *out)
{
	struct bits bits = {.bytes = unit + 1, .count = bytes - 1};
	bool referenced = unit[0] >> 5 & 3;
	unsigned first_block, type;

	if (!next_golomb(&bits, &first_block) || !next_golomb(&bits, &type) || type > 9)
		return false;
	type %= 5;
	if (key)
		*out = IMPORTANCE_KEY;
	else if (type == SLICE_B)
		*out = referenced ? IMPORTANCE_INNER : IMPORTANCE_LEAF;
	else
		*out = referenced ? IMPORTANCE_ANCHOR : IMPORTANCE_LEAF;
	return true;
}

bool importance_of(const AVPacket *packet, const AVCodecParameters *parameters,
		   enum importance *out)
{
	const uint8_t *at = packet->data, *end = packet->data + packet->size;
	bool framed = parameters->extradata_size > 4 && parameters->extradata[0] == 1;
	unsigned length_bytes = framed ? (parameters->extradata[4] & 3) + 1 : 0;
	size_t bytes;

	while ((bytes = framed ? framed_unit(&at, end, length_bytes) : streamed_unit(&at, end)) >
	       1) {
		unsigned type = at[0] & 31;

		if (type == NAL_SLICE || type == NAL_SLICE_IDR)
			return slice_importance(at, bytes, packet->flags & AV_PKT_FLAG_KEY, out);
		if (framed)
			at += bytes;
	}
	return false;
}
