/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a stage between reading and display does to a frame. */
#ifndef PIPELINE_TRANSFORM_H
#define PIPELINE_TRANSFORM_H

#include <stdbool.h>
#include <stdint.h>

#include <libavutil/frame.h>

/* Smooths the brightness so many times. False: no memory for a frame of its own. */
bool transform(AVFrame *frame, uint32_t passes);

#endif
