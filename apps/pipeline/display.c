/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "display.h"

/* The control variable that says when the thread's interval begins. */
#define BEGINS 0
/* A plan begins at once: what is farther away is none of this trigger's. */
#define BEGINS_WITHIN_NS 1000000000LL
/* Converting a frame for the screen goes on for so long at a time. */
#define PREPARE_STEP_NS 1000000

/* When relative times are 0: when the plan says, if there is one, else now. */
static uint64_t begin(struct display *display, struct consort_member *member)
{
	uint64_t now_ns = consort_now_ns();
	uint64_t first_ns = display->schedule->due_ns[0];
	int64_t begins_ns = 0, ahead_ns;

	if (!member || consort_trigger_plans(member) < 0 ||
	    consort_get_control(member, BEGINS, &begins_ns) < 0)
		return now_ns;
	ahead_ns = begins_ns - (int64_t)(now_ns + first_ns);
	if (begins_ns <= 0 || ahead_ns < -BEGINS_WITHIN_NS || ahead_ns > BEGINS_WITHIN_NS)
		return now_ns;
	display->by_plan = true;
	return (uint64_t)begins_ns - first_ns;
}

static void show(struct display *display, struct consort_member *member)
{
	if (member)
		consort_begin_submission(member);
	/* Before: the display server may run and show the frame before this thread has the CPU again. */
	display->submitted_ns[display->shown] = consort_now_ns();
	display->output->show(display->output);
	if (member) {
		consort_end_submission(member);
		consort_done(member);
	}
}

void display_run(struct stage *stage)
{
	struct display *display = stage->data;
	uint64_t origin_ns;

	queue_await(stage->in, display->bootstrap);
	origin_ns = begin(display, stage->member);
	while (display->shown < display->schedule->frames && !*display->interrupted) {
		uint64_t due_ns = origin_ns + display->schedule->due_ns[display->shown];
		AVFrame *frame = stage_take(stage);

		if (!frame)
			break;
		while (!display->output->prepare(display->output, frame, PREPARE_STEP_NS))
			;
		schedule_await(due_ns);
		display->due_ns[display->shown] = due_ns;
		show(display, stage->member);
		display->shown++;
		av_frame_free(&frame);
	}
}
