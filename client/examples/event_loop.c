/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An event loop with all three kinds of events: a tick that is due every 5 ms, background work that runs when
 * nothing else does, and a pipe that is read when there is something in it.
 */
#include <consort.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TICK_NS 5000000
#define TICKS 10

/* Smaller numbers run first. */
enum { PRIORITY_INPUT = 1, PRIORITY_BACKGROUND = 10 };

struct app {
	struct consort_event tick, background, input;
	uint64_t due_ns;
	int ticks, chunks, bytes;
	int pipe[2];
};

static void check(int result)
{
	if (result < 0) {
		fprintf(stderr, "event_loop: %s\n", consort_last_error_text());
		exit(1);
	}
}

static void await_input(struct consort_loop *loop, struct app *app)
{
	check(consort_event_submit_fd(loop, &app->input, app->pipe[0], EPOLLIN, PRIORITY_INPUT, 0));
}

static void on_tick(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct app *app = data;

	if (write(app->pipe[1], "x", 1) != 1)
		exit(1);
	if (++app->ticks == TICKS) {
		check(consort_loop_stop(loop));
		return;
	}
	app->due_ns += TICK_NS;
	check(consort_event_submit_due(loop, event, app->due_ns));
}

static void on_background(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct app *app = data;

	/* One chunk of work, at most a millisecond. Older work first: the key. */
	app->chunks++;
	usleep(100); /* stands for work */
	check(consort_event_submit_best_effort(loop, event, PRIORITY_BACKGROUND, app->chunks));
}

static void on_input(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct app *app = data;
	char buffer[16];
	ssize_t got = read(app->pipe[0], buffer, sizeof(buffer));

	(void)event;
	if (got > 0)
		app->bytes += got;
	await_input(loop, app);
}

int main(void)
{
	struct app app = { .due_ns = consort_now_ns() + TICK_NS };
	struct consort_options options = { .event_ns = 1000000 };
	struct consort_member *member;
	struct consort_loop *loop;

	if (pipe(app.pipe) < 0)
		return 1;
	check(consort_join("studio", &options, &member));
	check(consort_loop_new(member, &loop));
	consort_event_init(&app.tick, on_tick, &app);
	consort_event_init(&app.background, on_background, &app);
	consort_event_init(&app.input, on_input, &app);
	check(consort_event_submit_due(loop, &app.tick, app.due_ns));
	check(consort_event_submit_best_effort(loop, &app.background, PRIORITY_BACKGROUND, 0));
	await_input(loop, &app);
	check(consort_loop_run(loop));
	printf("%d ticks, %d bytes read, background work ran: %s\n", app.ticks, app.bytes,
	       app.chunks ? "yes" : "no");
	check(consort_event_finish(&app.tick));
	check(consort_event_finish(&app.background));
	check(consort_event_finish(&app.input));
	check(consort_loop_destroy(loop));
	check(consort_leave(member));
	return 0;
}
