/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <consort.h>

#define PLAYERS_MAX 64
#define SECONDS_MAX (7 * 24 * 3600.0)
#define EVENT_US_DEFAULT 1000

static const char usage[] =
	"Usage: consort-play [OPTION...] FILE\n"
	"\n"
	"Plays the H.264 video FILE. A frame is shown when it is due; when there is not CPU time\n"
	"to decode all, the least important pictures are left out. Players in one domain leave\n"
	"out the same amount.\n"
	"\n"
	"  --domain NAME      cooperate with the other programs in this domain (default: that of\n"
	"                     CONSORT_DOMAIN, which 'consort run --domain' sets, if there is one)\n"
	"  --private          cooperate with the scheduler alone, whatever CONSORT_DOMAIN says\n"
	"  --no-consort       leave scheduling to the kernel\n"
	"  --output none|x11  show frames nowhere or in a window (default: x11 if there is a\n"
	"                     display, else none)\n"
	"  --start SECONDS    begin there in the file (default 0)\n"
	"  --duration SECONDS play that long (default: to the end)\n"
	"  --loop             at the end, go on from the beginning\n"
	"  --start-at NS      the first frame is due at this time of CLOCK_MONOTONIC, in\n"
	"                     nanoseconds (default: half a second after everything is ready)\n"
	"  --event US         cut decoding into events of at most this many microseconds, 10 to\n"
	"                     2000, as far as the video allows (default 1000)\n"
	"  --players N        play FILE N times in this one process, 1 to 64 (default 1)\n"
	"  --start-step SECONDS   with --players: each begins that much later in the file than\n"
	"                     the one before (default 0)\n"
	"  --log FILE         write every due event and a summary there, as JSON lines\n"
	"  --help             this text\n"
	"\n"
	"Exit status: 0 played, 1 the video cannot be played, 2 wrong command line.\n";

enum {
	DOMAIN = 256,
	PRIVATE,
	NO_CONSORT,
	OUTPUT,
	START,
	DURATION,
	LOOP,
	START_AT,
	EVENT,
	PLAYERS,
	START_STEP,
	LOG,
	HELP
};

static const struct option long_options[] = {
	{"domain", required_argument, NULL, DOMAIN},
	{"private", no_argument, NULL, PRIVATE},
	{"no-consort", no_argument, NULL, NO_CONSORT},
	{"output", required_argument, NULL, OUTPUT},
	{"start", required_argument, NULL, START},
	{"duration", required_argument, NULL, DURATION},
	{"loop", no_argument, NULL, LOOP},
	{"start-at", required_argument, NULL, START_AT},
	{"event", required_argument, NULL, EVENT},
	{"players", required_argument, NULL, PLAYERS},
	{"start-step", required_argument, NULL, START_STEP},
	{"log", required_argument, NULL, LOG},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

static bool wrong(const char *option, const char *got, const char *expected)
{
	fprintf(stderr, "consort-play: error: %s is '%s'; expected %s\n", option, got, expected);
	return false;
}

/* A decimal number of units of unit_ns, in the range. */
static bool read_number(const char *text, double min, double max, double unit_ns, uint64_t *out_ns)
{
	char *rest;
	double value;

	errno = 0;
	value = strtod(text, &rest);
	if (rest == text || *rest || errno || !isfinite(value) || value < min || value > max)
		return false;
	*out_ns = (uint64_t)llround(value * unit_ns);
	return true;
}

static bool read_seconds(const char *option, const char *text, uint64_t *out_ns)
{
	return read_number(text, 0, SECONDS_MAX, 1e9, out_ns) ||
	       wrong(option, text, "a number of seconds from 0 to 604800");
}

static bool read_start_at(const char *text, uint64_t *out_ns)
{
	char *rest;

	errno = 0;
	*out_ns = strtoull(text, &rest, 10);
	if (rest == text || *rest || errno || text[0] == '-')
		return wrong("--start-at", text, "a whole number of nanoseconds");
	if (*out_ns > consort_now_ns() + CONSORT_DUE_AHEAD_MAX_NS)
		return wrong("--start-at", text, "a time less than a day ahead");
	return true;
}

static bool read_output(const char *text, enum options_output *out)
{
	if (!strcmp(text, "none"))
		*out = OUTPUT_NONE;
	else if (!strcmp(text, "x11"))
		*out = OUTPUT_X11;
	else
		return wrong("--output", text, "'none' or 'x11'");
	return true;
}

static bool read_option(int option, const char *text, struct options *o)
{
	uint64_t number;

	switch (option) {
	case DOMAIN:
		o->membership = MEMBER_OF_DOMAIN;
		o->domain = text;
		if (!*text)
			return wrong("--domain", text,
				     "a name; use --private for a domain of its own");
		return true;
	case PRIVATE:
		o->membership = MEMBER_PRIVATE;
		o->domain = NULL;
		return true;
	case NO_CONSORT:
		o->membership = MEMBER_NOT;
		o->domain = NULL;
		return true;
	case OUTPUT:
		return read_output(text, &o->output);
	case START:
		return read_seconds("--start", text, &o->start_ns);
	case START_STEP:
		return read_seconds("--start-step", text, &o->start_step_ns);
	case DURATION:
		return read_seconds("--duration", text, &o->duration_ns);
	case LOOP:
		o->loop = true;
		return true;
	case START_AT:
		return read_start_at(text, &o->start_at_ns);
	case EVENT:
		return read_number(text, CONSORT_EVENT_MIN_NS / 1e3, CONSORT_EVENT_MAX_NS / 1e3,
				   1e3, &o->event_ns) ||
		       wrong("--event", text, "a number of microseconds from 10 to 2000");
	case PLAYERS:
		if (!read_number(text, 1, PLAYERS_MAX, 1, &number) || strchr(text, '.'))
			return wrong("--players", text, "a whole number from 1 to 64");
		o->players = (uint32_t)number;
		return true;
	case LOG:
		o->log = text;
		return true;
	}
	fprintf(stderr, "consort-play: try 'consort-play --help'\n"); /* getopt said what */
	return false;
}

/* The domain that whoever started the program chose for it; NULL: none. */
static const char *chosen_domain(void)
{
	const char *name = getenv(OPTIONS_DOMAIN_VARIABLE);

	return name && *name ? name : NULL;
}

enum options_answer options_read(int argc, char **argv, struct options *o)
{
	const char *chosen = chosen_domain();
	int option, memberships = 0;

	*o = (struct options){
		.domain = chosen,
		.membership = chosen ? MEMBER_OF_DOMAIN : MEMBER_PRIVATE,
		.output = getenv("DISPLAY") ? OUTPUT_X11 : OUTPUT_NONE,
		.duration_ns = UINT64_MAX,
		.event_ns = EVENT_US_DEFAULT * 1000ULL,
		.players = 1,
	};
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == HELP) {
			fputs(usage, stdout);
			return OPTIONS_HELP;
		}
		if (!read_option(option, optarg, o))
			return OPTIONS_WRONG;
		memberships += option == DOMAIN || option == PRIVATE || option == NO_CONSORT;
	}
	if (memberships > 1) {
		fputs("consort-play: error: --domain, --private and --no-consort exclude each "
		      "other;"
		      " give one\n",
		      stderr);
		return OPTIONS_WRONG;
	}
	if (optind != argc - 1) {
		fprintf(stderr, "consort-play: error: %d files given; expected one video file\n",
			argc - optind);
		return OPTIONS_WRONG;
	}
	o->file = argv[optind];
	return OPTIONS_PLAY;
}
