/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Plays one clip: a due event per frame shows it, best-effort events decode ahead of them.
 *
 * All players of a thread share one loop and thus play in one process as they would play in several that
 * cooperate.
 */
#ifndef PLAY_PLAYER_H
#define PLAY_PLAYER_H

#include <stdint.h>

#include <consort.h>

#include "clip.h"
#include "decoder.h"
#include "journal.h"
#include "output.h"

struct player;

struct player_config {
	struct consort_loop *loop;
	struct journal *journal;
	uint32_t number; /* in the journal */
	uint64_t origin_ns; /* frame 0 is due then */
	uint64_t end_ns; /* no frame is due from then on; CONSORT_NEVER: plays to the clip's end */
	uint64_t step_ns; /* how long a best-effort event may take */
	void (*ended)(
		void *data); /* called once, when the last frame was due or the window closed */
	void *data;
};

/* What a player plays, with, and where to. Must outlive the player. */
struct player_parts {
	struct clip *clip;
	struct decoder *decoder;
	struct output *output;
};

/* What became of the clip's pictures. */
struct player_counts {
	uint64_t decoded[IMPORTANCE_LEVELS];
	uint64_t left_out[IMPORTANCE_LEVELS];
	uint64_t wasted; /* decoded too late to be shown, and nothing needed them */
	uint64_t damaged;
	uint64_t event_ns_max; /* longest best-effort event */
	uint64_t part_ns_max; /* longest part of decoding that cannot be cut */
	uint64_t work_ns; /* time in best-effort events */
};

/*
 * Makes the process own, in its heap, the memory that the clip's decoded frames will need, so that no event has to
 * wait for it. Does nothing when memory is short.
 */
void player_touch_memory(const struct clip *clip);

/* Submits the first events. NULL when memory is short or an event is refused (consort_last_error_text() says
 * why). */
struct player *player_create(const struct player_config *config, const struct player_parts *parts);
void player_destroy(struct player *player); /* accepts NULL */

struct player_counts player_counts(const struct player *player);

#endif
