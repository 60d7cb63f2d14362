/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "schedule.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_BYTES 256
#define DELAY_MS_MAX 3600000.0

int schedule_steady(struct schedule *schedule, uint32_t frames, uint64_t period_ns)
{
	schedule->due_ns = calloc(frames, sizeof(*schedule->due_ns));
	if (!schedule->due_ns)
		return -1;
	schedule->frames = frames;
	for (uint32_t i = 0; i < frames; i++)
		schedule->due_ns[i] = i * period_ns;
	return 0;
}

static int append(struct schedule *schedule, uint64_t delay_ns)
{
	uint32_t frames = schedule->frames;
	uint64_t *grown;

	/* Room doubles: at powers of two it is used up. */
	if (!(frames & (frames - 1))) {
		size_t room = frames ? 2 * (size_t)frames : 1;

		grown = realloc(schedule->due_ns, room * sizeof(*grown));
		if (!grown)
			return -1;
		schedule->due_ns = grown;
	}
	schedule->due_ns[frames] = delay_ns + (frames ? schedule->due_ns[frames - 1] : 0);
	schedule->frames++;
	return 0;
}

/* 1: a delay was read; 0: the line says nothing; -1: it is wrong. */
static int read_line(const char *line, int is_first, uint64_t *delay_ns)
{
	double ms;
	char *end;

	while (isspace((unsigned char)*line))
		line++;
	if (!*line || *line == '#' || (is_first && !strncmp(line, "delay_ms", 8)))
		return 0;
	errno = 0;
	ms = strtod(line, &end);
	if (end == line || errno || !isfinite(ms) || ms < 0 || ms > DELAY_MS_MAX ||
	    (*end && *end != ',' && !isspace((unsigned char)*end)))
		return -1;
	*delay_ns = (uint64_t)llround(ms * 1e6);
	return 1;
}

int schedule_read(struct schedule *schedule, const char *path, char *error, size_t error_bytes)
{
	FILE *file = fopen(path, "re");
	char line[LINE_BYTES];
	uint64_t delay_ns = 0;
	int number = 0, told = 0;

	*schedule = (struct schedule){ 0 };
	if (!file) {
		snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
		return -1;
	}
	while (told >= 0 && fgets(line, sizeof(line), file)) {
		number++;
		told = read_line(line, !schedule->frames, &delay_ns);
		if (told < 0)
			snprintf(error, error_bytes,
				 "%s:%d: expected a delay in milliseconds, such as 33.4", path,
				 number);
		else if (told && append(schedule, delay_ns) < 0)
			told = -1;
	}
	fclose(file);
	if (told >= 0 && schedule->frames)
		return 0;
	if (told >= 0)
		snprintf(error, error_bytes, "%s: no frames: expected a delay in each line", path);
	schedule_free(schedule);
	return -1;
}

void schedule_await(uint64_t at_ns)
{
	struct timespec at = { .tv_sec = (time_t)(at_ns / 1000000000),
			       .tv_nsec = (long)(at_ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
		;
}

void schedule_free(struct schedule *schedule)
{
	free(schedule->due_ns);
	*schedule = (struct schedule){ 0 };
}
