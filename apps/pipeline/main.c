/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* consort-pipeline: puts the stages together, runs them, and reports. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/log.h>

#include "display.h"
#include "film.h"
#include "groups.h"
#include "options.h"
#include "report.h"
#include "transform.h"

#define ERROR_BYTES 256
/* Without a schedule and without an end: an hour of the fastest films. */
#define FRAMES_MAX 1000000
#define STAGES_MAX (TRANSFORMS_MAX + 2)

struct program {
	struct options options;
	struct film *film;
	struct schedule schedule;
	struct schedule arrivals; /* no frames: all are there */
	struct display display;
	struct stage stages[STAGES_MAX];
	struct queue *queues[STAGES_MAX]; /* behind each stage but the last */
	uint32_t nr_stages;
	FILE *log;
};

static volatile bool interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = true;
}

static bool fail(const char *what, const char *why)
{
	fprintf(stderr, "consort-pipeline: error: %s: %s\n", what, why);
	return false;
}

static void read_frames(struct stage *stage)
{
	const struct program *program = stage->data;
	const struct schedule *arrivals = &program->arrivals;
	uint64_t origin_ns = consort_now_ns();

	for (uint32_t i = 0; !interrupted; i++) {
		AVFrame *frame;

		if (arrivals->frames) {
			if (i == arrivals->frames)
				return;
			schedule_await(origin_ns + arrivals->due_ns[i]);
		}
		frame = film_next(program->film);
		if (!frame || !stage_put(stage, frame))
			return;
	}
}

static void transform_frames(struct stage *stage)
{
	const struct options *options = stage->data;
	AVFrame *frame;

	while ((frame = stage_take(stage)))
		if (!transform(frame, options->passes) || !stage_put(stage, frame))
			return;
}

static bool open_schedule(struct program *program)
{
	const struct options *o = &program->options;
	char error[ERROR_BYTES] = "";
	uint64_t period_ns = (uint64_t)(1e9 / film_frames_per_s(program->film));

	if (o->arrivals && schedule_read(&program->arrivals, o->arrivals, error, sizeof(error)) < 0)
		return fail("--arrivals", error);
	if (!o->schedule) {
		uint32_t frames = o->frames ? o->frames : FRAMES_MAX;

		return !schedule_steady(&program->schedule, frames, period_ns) ||
		       fail("frames", "out of memory");
	}
	if (schedule_read(&program->schedule, o->schedule, error, sizeof(error)) < 0)
		return fail("--schedule", error);
	if (o->frames && o->frames < program->schedule.frames)
		program->schedule.frames = o->frames;
	return true;
}

static bool open_output(struct program *program)
{
	char error[ERROR_BYTES] =
		"built without X11; use --output none, or build the desktop program";
	struct output **output = &program->display.output;

	if (program->options.output == OUTPUT_NONE)
		*output = output_open_none();
#ifdef WITH_X11
	else
		*output = output_open_x11(film_width(program->film), film_height(program->film),
					  program->options.file, error, sizeof(error));
#endif
	return *output || fail("--output", error);
}

static bool open_display(struct program *program)
{
	struct display *display = &program->display;
	uint32_t frames = program->schedule.frames;

	display->schedule = &program->schedule;
	display->bootstrap = program->options.bootstrap;
	display->interrupted = &interrupted;
	display->due_ns = calloc(frames, sizeof(*display->due_ns));
	display->submitted_ns = calloc(frames, sizeof(*display->submitted_ns));
	if (!display->due_ns || !display->submitted_ns)
		return fail("frames", "out of memory");
	return open_output(program);
}

static bool open_all(struct program *program)
{
	const struct options *o = &program->options;
	char error[ERROR_BYTES] = "";

	program->film = film_open(o->file, error, sizeof(error));
	if (!program->film)
		return fail(o->file, error);
	/* A log that cannot be written must be known before the video was shown. */
	if (o->log && !(program->log = fopen(o->log, "we")))
		return fail(o->log, strerror(errno));
	return open_schedule(program) && open_display(program);
}

static bool make_stages(struct program *program)
{
	struct options *o = &program->options;
	struct stage *stages = program->stages;
	uint32_t last = o->transforms + 1;

	program->nr_stages = last + 1;
	for (uint32_t i = 0; i <= last; i++) {
		struct stage *stage = &stages[i];

		stage->run = transform_frames;
		stage->data = o;
		snprintf(stage->name, sizeof(stage->name), "transform-%u", i);
		if (i < last && !(program->queues[i] = queue_create(o->queue)))
			return fail("queues", "out of memory");
		stage->in = i ? program->queues[i - 1] : NULL;
		stage->out = i < last ? program->queues[i] : NULL;
	}
	strcpy(stages[0].name, "read");
	stages[0].run = read_frames;
	stages[0].data = program;
	strcpy(stages[last].name, "show");
	stages[last].run = display_run;
	stages[last].data = &program->display;
	for (uint32_t i = 0; i <= last && o->names; i++)
		groups_member_name(o, stages[i].name, stages[i].member_name);
	return true;
}

static bool run(struct program *program)
{
	struct sigaction action = { .sa_handler = on_signal };
	bool all_begun = true;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	for (uint32_t i = 0; i < program->nr_stages && all_begun; i++) {
		int error = stage_begin(&program->stages[i]);

		all_begun = !error || fail("cannot start a thread", strerror(error));
	}
	if (!all_begun) {
		for (uint32_t i = 0; i + 1 < program->nr_stages; i++)
			queue_drop(program->queues[i]);
	}
	for (uint32_t i = 0; i < program->nr_stages; i++)
		stage_await(&program->stages[i]);
	return all_begun;
}

static bool report(struct program *program)
{
	report_say(&program->display);
	if (!program->log)
		return true;
	report_write(program->log, &program->display, program->queues[program->nr_stages - 2]);
	if (ferror(program->log) || fclose(program->log))
		return fail(program->options.log, strerror(errno));
	return true;
}

static void finish(struct program *program)
{
	for (uint32_t i = 0; i < STAGES_MAX; i++) {
		stage_end(&program->stages[i]);
		queue_destroy(program->queues[i]);
	}
	if (program->display.output)
		program->display.output->close(program->display.output);
	free(program->display.due_ns);
	free(program->display.submitted_ns);
	schedule_free(&program->schedule);
	schedule_free(&program->arrivals);
	film_close(program->film);
}

int main(int argc, char **argv)
{
	static struct program program;
	bool done;

	switch (options_read(argc, argv, &program.options)) {
	case OPTIONS_HELP:
		return 0;
	case OPTIONS_WRONG:
		return 2;
	case OPTIONS_GROUPS:
		groups_print(&program.options);
		return 0;
	case OPTIONS_RUN:
		break;
	}
	av_log_set_level(AV_LOG_FATAL);
	done = open_all(&program) && make_stages(&program) && run(&program) && report(&program);
	finish(&program);
	return done ? 0 : 1;
}
