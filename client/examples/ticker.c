/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs every 5 ms together with the other members of a domain, and says how late it was. */
#include <consort.h>

#include <inttypes.h>
#include <stdio.h>

#define TICKS 10
#define TICK_NS 5000000

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : "studio";
	struct consort_options options = { .event_ns = 1000000 }; /* no tick works longer than 1 ms */
	struct consort_member *member;
	uint64_t tardiness_ns = 0;

	if (consort_join(domain, &options, &member) < 0) {
		fprintf(stderr, "ticker: %s\n", consort_last_error_text());
		return 1;
	}
	struct consort_next next = { .due_ns = consort_now_ns() + TICK_NS };
	for (int tick = 0; tick < TICKS;) {
		struct consort_others others;

		if (consort_poll(member, &next, &others) < 0) {
			fprintf(stderr, "ticker: %s\n", consort_last_error_text());
			return 1;
		}
		uint64_t now_ns = consort_now_ns();
		if (now_ns < next.due_ns)
			continue; /* a signal handler ran */
		tardiness_ns += now_ns - next.due_ns;
		/* ... the tick's work goes here ... */
		next.due_ns += TICK_NS;
		tick++;
	}
	printf("mean tardiness %" PRIu64 " ns over %d ticks\n", tardiness_ns / TICKS, TICKS);
	return consort_leave(member) < 0;
}
