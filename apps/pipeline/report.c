/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>

struct errors {
	uint64_t p50_ns, p95_ns, p99_ns, max_ns;
};

static uint64_t error_ns(const struct display *display, uint32_t frame)
{
	uint64_t due_ns = display->due_ns[frame], submitted_ns = display->submitted_ns[frame];

	return submitted_ns > due_ns ? submitted_ns - due_ns : due_ns - submitted_ns;
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

static struct errors measure(const struct display *display)
{
	struct errors errors = { 0 };
	uint64_t *sorted;
	uint32_t n = display->shown;

	sorted = n ? calloc(n, sizeof(*sorted)) : NULL;
	if (!sorted)
		return errors;
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = error_ns(display, i);
	qsort(sorted, n, sizeof(*sorted), compare);
	errors.p50_ns = sorted[n / 2];
	errors.p95_ns = sorted[(uint64_t)n * 95 / 100];
	errors.p99_ns = sorted[(uint64_t)n * 99 / 100];
	errors.max_ns = sorted[n - 1];
	free(sorted);
	return errors;
}

void report_write(FILE *log, const struct display *display, struct queue *last)
{
	struct errors errors = measure(display);

	for (uint32_t i = 0; i < display->shown; i++)
		fprintf(log,
			"{\"type\": \"frame\", \"frame\": %" PRIu32 ", \"due_ns\": %" PRIu64
			", \"submitted_ns\": %" PRIu64 ", \"error_ns\": %" PRIu64 "}\n",
			i, display->due_ns[i], display->submitted_ns[i], error_ns(display, i));
	fprintf(log,
		"{\"type\": \"summary\", \"frames\": %" PRIu32 ", \"shown\": %" PRIu32
		", \"by_plan\": %s, \"error_p50_ns\": %" PRIu64 ", \"error_p95_ns\": %" PRIu64
		", \"error_p99_ns\": %" PRIu64 ", \"error_max_ns\": %" PRIu64
		", \"queue_lowest\": %" PRIu32 ", \"queue_highest\": %" PRIu32 "}\n",
		display->schedule->frames, display->shown, display->by_plan ? "true" : "false",
		errors.p50_ns, errors.p95_ns, errors.p99_ns, errors.max_ns, queue_lowest(last),
		queue_highest(last));
}

void report_say(const struct display *display)
{
	struct errors errors = measure(display);

	printf("%" PRIu32 " of %" PRIu32 " frames, %s: off by %.3f ms at 95 %%, %.3f ms at most\n",
	       display->shown, display->schedule->frames,
	       display->by_plan ? "by plan" : "by own timing", (double)errors.p95_ns / 1e6,
	       (double)errors.max_ns / 1e6);
}
