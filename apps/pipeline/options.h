/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PIPELINE_OPTIONS_H
#define PIPELINE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define TRANSFORMS_MAX 16
/* Of the pipeline; room is left for its threads' own. */
#define NAME_BYTES_MAX 16

enum options_output { OUTPUT_NONE, OUTPUT_X11 };

struct options {
	const char *file;
	const char *schedule; /* NULL: the film's own pace */
	const char *arrivals; /* NULL: all of the file is there */
	const char *log; /* NULL: none */
	const char *name; /* NULL: the only pipeline */
	enum options_output output;
	uint32_t transforms;
	uint32_t passes; /* of each transformation */
	uint32_t queue; /* frames that fit between two stages */
	uint32_t bootstrap; /* frames that wait for the display before the first is due */
	uint32_t frames; /* 0: as many as the schedule has, or until interrupted */
	bool names; /* threads announce themselves, and plans decide */
};

enum options_answer { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_GROUPS, OPTIONS_WRONG };

/* Reads the command line. Says on stderr what is wrong with it, or on stdout what --help asks for. */
enum options_answer options_read(int argc, char **argv, struct options *options);

#endif
