/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PLAY_IMPORTANCE_H
#define PLAY_IMPORTANCE_H

#include "clip.h"

/*
 * Importance of an H.264 picture, from the header of its first slice. False if there is none. extradata is the
 * stream's; it says how packets are framed.
 */
bool importance_of(const AVPacket *packet, const AVCodecParameters *parameters,
		   enum importance *out);

#endif
