/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What happened, as JSON lines. Kept in memory until the end, since writing a file may block and an event
 * must not; an hour of 24 frames/s is 3 MB.
 */
#ifndef PLAY_JOURNAL_H
#define PLAY_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct journal;

struct journal_frame {
	uint64_t due_ns;
	uint64_t dispatch_ns;
	int64_t frame;
	uint32_t player;
	bool shown;
};

/* Of one player, or of all. */
struct journal_totals {
	uint64_t frames;
	uint64_t shown;
	uint64_t tardiness_ns_sum;
	uint64_t tardiness_ns_max;
	uint64_t tardiness_p99_ns;
	uint64_t first_due_ns, last_due_ns;
};

struct journal *journal_create(void); /* NULL when memory is short */
void journal_destroy(struct journal *journal); /* accepts NULL */

/* When memory is short the record is lost, and counted. */
void journal_add(struct journal *journal, const struct journal_frame *frame);
uint64_t journal_lost(const struct journal *journal);

#define JOURNAL_ALL UINT32_MAX
struct journal_totals journal_totals(const struct journal *journal, uint32_t player);

/* One line for each due event, in the order of dispatch. */
void journal_write(const struct journal *journal, FILE *out);

#endif
