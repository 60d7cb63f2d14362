/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"Usage: consort-pipeline [OPTION...] FILE\n"
	"       consort-pipeline --groups [OPTION...]\n"
	"\n"
	"Reads the video FILE, transforms its frames and shows each when it is due: a thread for\n"
	"each of these, joined by bounded queues. The file begins anew at its end.\n"
	"\n"
	"  --transforms N     stages between reading and display, 0 to 16 (default 1)\n"
	"  --passes N         how often each smooths a frame, 1 to 1000 (default 1)\n"
	"  --queue N          frames that fit between two stages, 1 to 1000 (default 8)\n"
	"  --bootstrap N      frames that wait for the display before the first is due, at most\n"
	"                     the queue's (default 4)\n"
	"  --frames N         show so many (default: as many as the schedule has, or until\n"
	"                     interrupted)\n"
	"  --schedule CSV     when frames are due, as for `consort plan load` (default: at the\n"
	"                     film's own pace)\n"
	"  --arrivals CSV     when frames arrive after the first, as a schedule: none is read "
	"before,\n"
	"                     as over a network, and the last one ends the film\n"
	"  --timing self|plan self: threads have no names, and the display sleeps until a frame\n"
	"                     is due. plan: threads announce themselves as read, transform-1,\n"
	"                     ..., show, and show triggers the plan that it has (default self)\n"
	"  --name NAME        of one pipeline among several: its threads are NAME-read, ..., its\n"
	"                     group is NAME (default: read, ..., and the group is film)\n"
	"  --output none|x11  show frames nowhere or in a window (default none)\n"
	"  --log FILE         write when each frame was due and submitted, and a summary, as JSON\n"
	"                     lines\n"
	"  --groups           print the group file of such a pipeline, for `consort apply -`\n"
	"  --help             this text\n"
	"\n"
	"Exit status: 0 shown, 1 the video cannot be shown, 2 wrong command line.\n";

enum {
	TRANSFORMS = 256,
	PASSES,
	QUEUE,
	BOOTSTRAP,
	FRAMES,
	SCHEDULE,
	ARRIVALS,
	TIMING,
	NAME,
	OUTPUT,
	LOG,
	GROUPS,
	HELP
};

static const struct option long_options[] = {
	{ "transforms", required_argument, NULL, TRANSFORMS },
	{ "passes", required_argument, NULL, PASSES },
	{ "queue", required_argument, NULL, QUEUE },
	{ "bootstrap", required_argument, NULL, BOOTSTRAP },
	{ "frames", required_argument, NULL, FRAMES },
	{ "schedule", required_argument, NULL, SCHEDULE },
	{ "arrivals", required_argument, NULL, ARRIVALS },
	{ "timing", required_argument, NULL, TIMING },
	{ "name", required_argument, NULL, NAME },
	{ "output", required_argument, NULL, OUTPUT },
	{ "log", required_argument, NULL, LOG },
	{ "groups", no_argument, NULL, GROUPS },
	{ "help", no_argument, NULL, HELP },
	{ NULL, 0, NULL, 0 },
};

static bool wrong(const char *option, const char *got, const char *expected)
{
	fprintf(stderr, "consort-pipeline: error: %s is '%s'; expected %s\n", option, got, expected);
	return false;
}

static bool read_number(const char *option, const char *text, uint32_t min, uint32_t max,
			uint32_t *out)
{
	char expected[64];
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (end != text && !*end && !errno && text[0] != '-' && value >= min && value <= max) {
		*out = (uint32_t)value;
		return true;
	}
	snprintf(expected, sizeof(expected), "a whole number from %u to %u", min, max);
	return wrong(option, text, expected);
}

/* The place of a word among two; -1 when it is neither. */
static int read_word(const char *option, const char *text, const char *first, const char *second)
{
	char expected[64];

	if (!strcmp(text, first))
		return 0;
	if (!strcmp(text, second))
		return 1;
	snprintf(expected, sizeof(expected), "%s or %s", first, second);
	wrong(option, text, expected);
	return -1;
}

/* Its threads' names, and its group's, are made of it. */
static bool name_fits(const char *name)
{
	size_t bytes =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return (bytes && bytes <= NAME_BYTES_MAX && !name[bytes]) ||
	       wrong("--name", name, "up to 16 letters, digits, _ or -");
}

static bool read_option(int option, const char *value, struct options *o)
{
	int word;

	switch (option) {
	case TRANSFORMS:
		return read_number("--transforms", value, 0, TRANSFORMS_MAX, &o->transforms);
	case PASSES:
		return read_number("--passes", value, 1, 1000, &o->passes);
	case QUEUE:
		return read_number("--queue", value, 1, 1000, &o->queue);
	case BOOTSTRAP:
		return read_number("--bootstrap", value, 0, 1000, &o->bootstrap);
	case FRAMES:
		return read_number("--frames", value, 1, 1000000, &o->frames);
	case SCHEDULE:
		o->schedule = value;
		return true;
	case ARRIVALS:
		o->arrivals = value;
		return true;
	case TIMING:
		word = read_word("--timing", value, "self", "plan");
		o->names = word == 1;
		return word >= 0;
	case NAME:
		o->name = value;
		return name_fits(value);
	case OUTPUT:
		word = read_word("--output", value, "none", "x11");
		o->output = word == 1 ? OUTPUT_X11 : OUTPUT_NONE;
		return word >= 0;
	case LOG:
		o->log = value;
		return true;
	}
	return false;
}

enum options_answer options_read(int argc, char **argv, struct options *o)
{
	bool prints_groups = false;
	int option;

	*o = (struct options){ .transforms = 1, .passes = 1, .queue = 8, .bootstrap = 4 };
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == HELP) {
			fputs(usage, stdout);
			return OPTIONS_HELP;
		}
		if (option == GROUPS)
			prints_groups = true;
		else if (!read_option(option, optarg, o))
			return OPTIONS_WRONG;
	}
	if (o->bootstrap > o->queue) {
		wrong("--bootstrap", "more than the queue takes", "at most --queue");
		return OPTIONS_WRONG;
	}
	if (prints_groups)
		return OPTIONS_GROUPS;
	if (optind != argc - 1) {
		wrong("FILE", optind < argc ? "several" : "missing", "one video file; see --help");
		return OPTIONS_WRONG;
	}
	o->file = argv[optind];
	return OPTIONS_RUN;
}
