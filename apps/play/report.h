/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the program says when it has played: JSON lines to a log, one line of text to a person. */
#ifndef PLAY_REPORT_H
#define PLAY_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "journal.h"
#include "options.h"
#include "player.h"

/* A line of type "start", one of type "frame" for each due event, one of type "summary" for each player. */
void report_write(FILE *log, const struct options *options, uint64_t origin_ns,
		  const struct journal *journal, struct player *const *players);

/* To stdout. */
void report_say(const struct journal *journal);

#endif
