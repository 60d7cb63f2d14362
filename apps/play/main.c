/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* consort-play: puts the parts together, runs them, and reports. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <libavutil/log.h>

#include <consort.h>

#include "options.h"
#include "player.h"

#define ERROR_BYTES 256
/* Time to decode ahead before the first frame is due. */
#define PREROLL_NS 500000000ULL
#define SIGNAL_PRIORITY 0

struct program {
	struct options options;
	struct consort_member *member;
	struct consort_loop *loop;
	struct journal *journal;
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
	struct consort_options domain = {.event_ns = o->event_ns};
	int code;

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

/* Everything of player number i but the player. */
struct parts {
	struct clip *clip;
	struct decoder *decoder;
	struct output *output;
};

static bool open_parts(struct program *program, uint32_t i, struct parts *parts)
{
	const struct options *o = &program->options;
	char error[ERROR_BYTES] = "";

	parts->clip = clip_open(o->file, o->start_ns + i * o->start_step_ns, o->loop, error,
				sizeof(error));
	if (!parts->clip)
		return fail(o->file, error);
	parts->decoder =
		decoder_create(clip_parameters(parts->clip), o->event_ns, error, sizeof(error));
	if (!parts->decoder) {
		clip_close(parts->clip);
		return fail(o->file, error);
	}
	parts->output = open_output(o, parts->clip, error);
	if (!parts->output) {
		decoder_destroy(parts->decoder);
		clip_close(parts->clip);
		return fail("--output", error);
	}
	return true;
}

static void close_parts(const struct parts *parts)
{
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

static bool create_players(struct program *program)
{
	const struct options *o = &program->options;
	struct parts *parts = calloc(o->players, sizeof(*parts));
	struct player_config config = {
		.loop = program->loop,
		.journal = program->journal,
		.step_ns = o->event_ns,
		.ended = on_ended,
		.data = program,
	};
	uint32_t opened = 0, i;

	program->players = calloc(o->players, sizeof(*program->players));
	if (!parts || !program->players)
		return free(parts), fail("players", "out of memory");
	while (opened < o->players && open_parts(program, opened, &parts[opened]))
		opened++;
	set_origin(program); /* after what takes long */
	config.origin_ns = program->origin_ns;
	config.end_ns =
		o->duration_ns == UINT64_MAX ? CONSORT_NEVER : config.origin_ns + o->duration_ns;
	for (i = 0; opened == o->players && i < opened; i++) {
		config.number = i;
		program->players[i] =
			player_create(&config, parts[i].clip, parts[i].decoder, parts[i].output);
		if (!program->players[i]) {
			fail("cannot start playing", consort_last_error_text());
			break;
		}
		program->playing++;
	}
	for (uint32_t rest = program->playing; rest < opened; rest++)
		close_parts(&parts[rest]);
	free(parts);
	return program->playing == o->players;
}

static const char *json_escaped(const char *text, char *out, size_t out_bytes)
{
	size_t at = 0;

	for (; *text && at + 7 < out_bytes; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			at += (size_t)snprintf(out + at, out_bytes - at, "\\%c", c);
		else if (c < 0x20)
			at += (size_t)snprintf(out + at, out_bytes - at, "\\u%04x", c);
		else
			out[at++] = (char)c;
	}
	out[at] = 0;
	return out;
}

static void write_start(const struct program *program, FILE *log)
{
	static const char *const memberships[] = {"domain", "private", "none"};
	const struct options *o = &program->options;
	char text[1024];

	fprintf(log,
		"{\"type\": \"start\", \"players\": %" PRIu32 ", \"membership\": \"%s\", "
		"\"origin_ns\": %" PRIu64 ", \"event_ns\": %" PRIu64 ", \"start_ns\": %" PRIu64,
		o->players, memberships[o->membership], program->origin_ns, o->event_ns,
		o->start_ns);
	if (o->domain)
		fprintf(log, ", \"domain\": \"%s\"", json_escaped(o->domain, text, sizeof(text)));
	fprintf(log, ", \"file\": \"%s\"}\n", json_escaped(o->file, text, sizeof(text)));
}

static void write_counts(FILE *log, const char *name, const uint64_t counts[IMPORTANCE_LEVELS])
{
	fprintf(log,
		", \"%s\": {\"key\": %" PRIu64 ", \"anchor\": %" PRIu64 ", \"inner\": %" PRIu64
		", \"leaf\": %" PRIu64 "}",
		name, counts[IMPORTANCE_KEY], counts[IMPORTANCE_ANCHOR], counts[IMPORTANCE_INNER],
		counts[IMPORTANCE_LEAF]);
}

static void write_summary(const struct program *program, uint32_t i, FILE *log)
{
	struct journal_totals t = journal_totals(program->journal, i);
	struct player_counts c = player_counts(program->players[i]);

	fprintf(log,
		"{\"type\": \"summary\", \"player\": %" PRIu32 ", \"frames\": %" PRIu64
		", \"shown\": %" PRIu64 ", \"dropped\": %" PRIu64
		", \"tardiness_mean_ns\": %" PRIu64 ", \"tardiness_p99_ns\": %" PRIu64
		", \"tardiness_max_ns\": %" PRIu64,
		i, t.frames, t.shown, t.frames - t.shown,
		t.frames ? t.tardiness_ns_sum / t.frames : 0, t.tardiness_p99_ns,
		t.tardiness_ns_max);
	write_counts(log, "decoded", c.decoded);
	write_counts(log, "left_out", c.left_out);
	fprintf(log,
		", \"wasted\": %" PRIu64 ", \"damaged\": %" PRIu64 ", \"work_ns\": %" PRIu64
		", \"event_ns_max\": %" PRIu64 ", \"row_ns_max\": %" PRIu64
		", \"lost_records\": %" PRIu64 "}\n",
		c.wasted, c.damaged, c.work_ns, c.event_ns_max, c.row_ns_max,
		journal_lost(program->journal));
}

static bool write_log(const struct program *program)
{
	FILE *log = program->log;

	if (!log)
		return true;
	write_start(program, log);
	journal_write(program->journal, log);
	for (uint32_t i = 0; i < program->options.players; i++)
		write_summary(program, i, log);
	if (ferror(log) || fclose(log))
		return fail(program->options.log, strerror(errno));
	return true;
}

static void say_result(const struct program *program)
{
	struct journal_totals t = journal_totals(program->journal, JOURNAL_ALL);

	printf("%" PRIu64 " of %" PRIu64
	       " frames shown; tardiness mean %.2f ms, p99 %.2f ms, max %.2f ms\n",
	       t.shown, t.frames,
	       t.frames ? (double)t.tardiness_ns_sum / (double)t.frames / 1e6 : 0.0,
	       (double)t.tardiness_p99_ns / 1e6, (double)t.tardiness_ns_max / 1e6);
}

static bool play(struct program *program)
{
	int code;

	/* A log that cannot be written must be known before the video was played. */
	if (program->options.log) {
		program->log = fopen(program->options.log, "we");
		if (!program->log)
			return fail(program->options.log, strerror(errno));
	}
	program->journal = journal_create();
	if (!program->journal)
		return fail("journal", "out of memory");
	if (!join(program) || !watch_signals(program) || !create_players(program))
		return false;
	code = consort_loop_run(program->loop);
	if (code)
		return fail("event loop", consort_last_error_text());
	say_result(program);
	return write_log(program);
}

static void finish(struct program *program)
{
	for (uint32_t i = 0; program->players && i < program->options.players; i++)
		player_destroy(program->players[i]);
	free(program->players);
	if (program->signal_fd >= 0) {
		consort_event_finish(&program->signal);
		close(program->signal_fd);
	}
	consort_loop_destroy(program->loop);
	consort_leave(program->member);
	journal_destroy(program->journal);
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
	/* libavcodec's own messages are about pictures that were left out on purpose. */
	av_log_set_level(AV_LOG_FATAL);
	played = play(&program);
	finish(&program);
	return played ? 0 : 1;
}
