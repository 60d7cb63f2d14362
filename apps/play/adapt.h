/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which pictures to decode when there is not CPU time for all: the player's adaptation.
 *
 * Problem: in overload some pictures must be left out. Leaving out whichever happens to be late loses
 * references and stalls whole groups; and each player on its own loses what its share of the CPU happens to
 * leave, so that costly videos look worse than cheap ones.
 *
 * Rule: the importance of a picture is the priority of the event that decodes it, so that in a domain no player
 * decodes a leaf while another one lacks a reference. Among equals the player goes first that is
 * least far: the key is the due time of its next picture minus its lag, the time that it recently lost to
 * left-out frames. So players of a domain lose the same number of frames, not the same CPU time.
 *
 * A picture that nothing or little depends on is left out unless its due time is farther away than its
 * level's reserve. The reserve keeps the less important from eating the time that references need: a costly key
 * picture finds that much slack. References are decoded even when late, as long as something after
 * them can be shown in time; else the rest of the group is given up.
 *
 * Limits: libavcodec decodes in order, so a picture is decoded in its turn or never; costs are estimated from the
 * past; pictures that refer to something in a way that their slice type does not tell (INNER
 * pictures of several levels) may be decoded with damage when others were left out.
 */
#ifndef PLAY_ADAPT_H
#define PLAY_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

#include "clip.h"

struct adapt {
	uint64_t cost_ns[IMPORTANCE_LEVELS]; /* decoding time of one picture, moving average */
	uint64_t lag_ns;
	enum importance lost; /* most important level that was left out; IMPORTANCE_LEVELS: none */
	int64_t key_frame; /* newest key picture's */
	bool leading_lost; /* pictures shown before key_frame miss their reference */
};

/* When a picture and the next group's first are due; CONSORT_NEVER if there is no next group. */
struct adapt_times {
	uint64_t now_ns;
	uint64_t due_ns;
	uint64_t next_key_due_ns;
};

void adapt_init(struct adapt *adapt);

/* True if the picture shall be decoded; false: leave it out and say so with adapt_left_out(). */
bool adapt_wants(const struct adapt *adapt, const struct picture *picture,
		 const struct adapt_times *times);
void adapt_left_out(struct adapt *adapt, const struct picture *picture);
void adapt_begins(struct adapt *adapt, const struct picture *picture);
void adapt_decoded(struct adapt *adapt, enum importance importance, uint64_t cost_ns);

/* Once a frame, when it is due: was it shown? period_ns: time between frames. */
void adapt_frame_due(struct adapt *adapt, bool shown, uint64_t period_ns);

/* Priority and key of the event that decodes the picture, or goes on with one that was begun: work that was begun is
 * finished first, since half a picture is worth nothing. */
uint32_t adapt_priority(const struct picture *picture);
uint32_t adapt_priority_begun(void);
uint64_t adapt_key(const struct adapt *adapt, uint64_t due_ns);

#endif
