/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The last stage: shows each frame when it is due, and writes down when it did. */
#ifndef PIPELINE_DISPLAY_H
#define PIPELINE_DISPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "../play/output.h"
#include "schedule.h"
#include "stage.h"

struct display {
	struct output *output;
	const struct schedule *schedule;
	uint32_t bootstrap;
	volatile bool *interrupted;
	/* By frame: when it was due, and when it had been handed over to the output. */
	uint64_t *due_ns;
	uint64_t *submitted_ns;
	uint32_t shown;
	bool by_plan; /* a plan said when the first frame is due */
};

/* The stage's run; its data is a struct display. */
void display_run(struct stage *stage);

#endif
