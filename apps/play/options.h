/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PLAY_OPTIONS_H
#define PLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Where 'consort run --domain' puts the domain of programs that name none. */
#define OPTIONS_DOMAIN_VARIABLE "CONSORT_DOMAIN"

enum options_membership { MEMBER_OF_DOMAIN, MEMBER_PRIVATE, MEMBER_NOT };
enum options_output { OUTPUT_NONE, OUTPUT_X11 };

struct options {
	const char *file;
	enum options_membership membership;
	const char *domain; /* NULL unless MEMBER_OF_DOMAIN */
	enum options_output output;
	uint64_t start_ns; /* where in the file */
	uint64_t start_step_ns; /* each further player starts that much later in it */
	uint64_t start_at_ns; /* CLOCK_MONOTONIC; 0: as soon as possible */
	uint64_t duration_ns; /* UINT64_MAX: to the end */
	uint64_t event_ns;
	uint32_t players;
	bool loop;
	const char *log; /* NULL: none */
};

enum options_answer { OPTIONS_PLAY, OPTIONS_HELP, OPTIONS_WRONG };

/* Reads the command line. Says on stderr what is wrong with it, or on stdout what --help asks for. */
enum options_answer options_read(int argc, char **argv, struct options *options);

#endif
