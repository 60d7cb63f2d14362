/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When frames are due, after the first one's trigger. */
#ifndef PIPELINE_SCHEDULE_H
#define PIPELINE_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

struct schedule {
	uint64_t *due_ns;
	uint32_t frames;
};

/* So many frames, one every period. Returns 0, or -1 when there is no memory. */
int schedule_steady(struct schedule *schedule, uint32_t frames, uint64_t period_ns);

/*
 * Reads a frame schedule as `consort plan load` does: delays in milliseconds in the first column. Returns 0, or -1 and says
 * why in error.
 */
int schedule_read(struct schedule *schedule, const char *path, char *error, size_t error_bytes);

/* Sleeps until then, by CLOCK_MONOTONIC. */
void schedule_await(uint64_t at_ns);

void schedule_free(struct schedule *schedule);

#endif
