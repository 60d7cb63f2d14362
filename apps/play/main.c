/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* consort-play: puts the parts together, runs them, and reports. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <libavutil/log.h>

#include <consort.h>

#include "options.h"
#include "player.h"
#include "report.h"

#define ERROR_BYTES 256
/* Time to decode ahead before the first frame is due. */
#define PREROLL_NS 500000000ULL
#define SIGNAL_PRIORITY 0

struct program {
	struct options options;
	struct consort_member *member;
	struct consort_loop *loop;
	struct journal *journal;
	struct player_parts *parts; /* one for each player */
	struct player **players;
	uint32_t playing;
	uint64_t origin_ns;
	FILE *log;
	struct consort_event signal;
	int signal_fd;
};

static bool fail(const char *what, const char *why)
{
	fprintf(stderr, "consort-play: error: %s: %s\n", what, why);
	return false;
}

static void on_ended(void *data)
{
	struct program *program = data;

	if (!--program->playing)
		consort_loop_stop(program->loop);
}

static void on_signal(struct consort_loop *loop, struct consort_event *event, void *data)
{
	(void)event;
	(void)data;
	consort_loop_stop(loop);
}

/* An interrupted player still writes its log. */
static bool watch_signals(struct program *program)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	program->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (program->signal_fd < 0)
		return fail("signalfd", strerror(errno));
	consort_event_init(&program->signal, on_signal, program);
	if (consort_event_submit_fd(program->loop, &program->signal, program->signal_fd, EPOLLIN,
				    SIGNAL_PRIORITY, 0))
		return fail("cannot watch for signals", consort_last_error_text());
	return true;
}

static bool join(struct program *program)
{
	const struct options *o = &program->options;
	/* How long a part of decoding takes is known only afterwards: an event may come out longer than asked for. */
	struct consort_options domain = {.event_ns = 2 * o->event_ns};
	int code;

	if (domain.event_ns > CONSORT_EVENT_MAX_NS)
		domain.event_ns = CONSORT_EVENT_MAX_NS;
	/* Without a name, libconsort goes by what the environment says. */
	if (o->membership == MEMBER_PRIVATE)
		unsetenv(OPTIONS_DOMAIN_VARIABLE);
	if (o->membership != MEMBER_NOT) {
		code = consort_join(o->domain, &domain, &program->member);
		if (code)
			return fail(o->domain ? o->domain : "private domain",
				    consort_last_error_text());
	}
	code = consort_loop_new(program->member, &program->loop);
	if (code)
		return fail("event loop", consort_last_error_text());
	return true;
}

static struct output *open_output(const struct options *o, const struct clip *clip, char *error)
{
	const AVCodecParameters *video = clip_parameters(clip);

	if (o->output == OUTPUT_NONE)
		return output_open_none();
#ifdef WITH_X11
	return output_open_x11(video->width, video->height, o->file, error, ERROR_BYTES);
#else
	(void)video;
	snprintf(error, ERROR_BYTES,
		 "built without X11; use --output none, or build the desktop program");
	return NULL;
#endif
}

/* Reads, decodes and allocates what takes long: before joining, since an event must not. */
static bool open_parts(struct program *program, uint32_t i, struct player_parts *parts)
{
	const struct options *o = &program->options;
	char error[ERROR_BYTES] = "";

	parts->clip = clip_open(o->file, o->start_ns + i * o->start_step_ns, o->loop, error,
				sizeof(error));
	if (!parts->clip)
		return fail(o->file, error);
	parts->decoder =
		decoder_create(clip_parameters(parts->clip), o->event_ns, error, sizeof(error));
	if (!parts->decoder)
		return fail(o->file, error);
	decoder_warm_up(parts->decoder, clip_head(parts->clip)->packet);
	player_touch_memory(parts->clip);
	parts->output = open_output(o, parts->clip, error);
	return parts->output || fail("--output", error);
}

static bool open_all(struct program *program)
{
	uint32_t count = program->options.players;

	program->parts = calloc(count, sizeof(*program->parts));
	program->players = calloc(count, sizeof(*program->players));
	program->journal = journal_create();
	if (!program->parts || !program->players || !program->journal)
		return fail("players", "out of memory");
	for (uint32_t i = 0; i < count; i++)
		if (!open_parts(program, i, &program->parts[i]))
			return false;
	return true;
}

static void close_parts(const struct player_parts *parts)
{
	if (parts->output)
		parts->output->close(parts->output);
	decoder_destroy(parts->decoder);
	clip_close(parts->clip);
}

static void set_origin(struct program *program)
{
	uint64_t now_ns = consort_now_ns();
	uint64_t at_ns = program->options.start_at_ns;

	program->origin_ns = at_ns ? at_ns : now_ns + PREROLL_NS;
	if (program->origin_ns < now_ns)
		fprintf(stderr, "consort-play: warning: --start-at is %" PRIu64 " ms in the past\n",
			(now_ns - program->origin_ns) / 1000000);
}

static bool write_log(const struct program *program)
{
	if (!program->log)
		return true;
	report_write(program->log, &program->options, program->origin_ns, program->journal,
		     program->players);
	if (ferror(program->log) || fclose(program->log))
		return fail(program->options.log, strerror(errno));
	return true;
}

static bool create_players(struct program *program)
{
	const struct options *o = &program->options;
	struct player_config config = {
		.loop = program->loop,
		.journal = program->journal,
		.origin_ns = program->origin_ns,
		.end_ns = CONSORT_NEVER,
		.step_ns = o->event_ns,
		.ended = on_ended,
		.data = program,
	};

	if (o->duration_ns != UINT64_MAX)
		config.end_ns = program->origin_ns + o->duration_ns;
	for (uint32_t i = 0; i < o->players; i++) {
		config.number = i;
		program->players[i] = player_create(&config, &program->parts[i]);
		if (!program->players[i])
			return fail("cannot start playing", consort_last_error_text());
		program->playing++;
	}
	return true;
}

static bool play(struct program *program)
{
	int code;

	if (!open_all(program))
		return false;
	/* A log that cannot be written must be known before the video was played. */
	if (program->options.log) {
		program->log = fopen(program->options.log, "we");
		if (!program->log)
			return fail(program->options.log, strerror(errno));
	}
	if (!join(program) || !watch_signals(program))
		return false;
	set_origin(program);
	if (!create_players(program))
		return false;
	code = consort_loop_run(program->loop);
	if (code)
		return fail("event loop", consort_last_error_text());
	report_say(program->journal);
	return write_log(program);
}

static void finish(struct program *program)
{
	for (uint32_t i = 0; i < program->options.players; i++) {
		if (program->players)
			player_destroy(program->players[i]);
		if (program->parts)
			close_parts(&program->parts[i]);
	}
	free(program->players);
	free(program->parts);
	if (program->signal_fd >= 0) {
		consort_event_finish(&program->signal);
		close(program->signal_fd);
	}
	consort_loop_destroy(program->loop);
	consort_leave(program->member);
	journal_destroy(program->journal);
}

/*
 * An event must not sleep, and page faults do. The kernel joins small pages to huge ones in a thread of lowest
 * priority; a fault that meets it waits for that thread, in overload for seconds. And memory that is given
 * back must be faulted in again.
 */
static void avoid_page_faults(void)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_MMAP_MAX, 0);
}

int main(int argc, char **argv)
{
	struct program program = {.signal_fd = -1};
	bool played;

	switch (options_read(argc, argv, &program.options)) {
	case OPTIONS_HELP:
		return 0;
	case OPTIONS_WRONG:
		return 2;
	case OPTIONS_PLAY:
		break;
	}
	avoid_page_faults();
	/* libavcodec's own messages are about pictures that were left out on purpose. */
	av_log_set_level(AV_LOG_FATAL);
	played = play(&program);
	finish(&program);
	return played ? 0 : 1;
}
