/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define FIRST_CAPACITY 4096

struct journal {
	struct journal_frame *frames;
	size_t count, capacity;
	uint64_t lost;
};

struct journal *journal_create(void)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->capacity = FIRST_CAPACITY;
	j->frames = malloc(j->capacity * sizeof(*j->frames));
	if (!j->frames) {
		free(j);
		return NULL;
	}
	return j;
}

void journal_destroy(struct journal *j)
{
	if (!j)
		return;
	free(j->frames);
	free(j);
}

void journal_add(struct journal *j, const struct journal_frame *frame)
{
	if (j->count == j->capacity) {
		struct journal_frame *more =
			realloc(j->frames, 2 * j->capacity * sizeof(*j->frames));

		if (!more) {
			j->lost++;
			return;
		}
		j->frames = more;
		j->capacity *= 2;
	}
	j->frames[j->count++] = *frame;
}

uint64_t journal_lost(const struct journal *j)
{
	return j->lost;
}

static uint64_t tardiness_ns(const struct journal_frame *f)
{
	return f->dispatch_ns > f->due_ns ? f->dispatch_ns - f->due_ns : 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void add_to_totals(struct journal_totals *t, const struct journal_frame *f)
{
	uint64_t late_ns = tardiness_ns(f);

	t->frames++;
	t->shown += f->shown;
	t->tardiness_ns_sum += late_ns;
	if (late_ns > t->tardiness_ns_max)
		t->tardiness_ns_max = late_ns;
	if (t->frames == 1 || f->due_ns < t->first_due_ns)
		t->first_due_ns = f->due_ns;
	if (f->due_ns > t->last_due_ns)
		t->last_due_ns = f->due_ns;
}

struct journal_totals journal_totals(const struct journal *j, uint32_t player)
{
	struct journal_totals t = {0};
	uint64_t *late_ns = malloc((j->count + 1) * sizeof(*late_ns));

	for (size_t i = 0; i < j->count; i++) {
		const struct journal_frame *f = &j->frames[i];

		if (player != JOURNAL_ALL && f->player != player)
			continue;
		if (late_ns)
			late_ns[t.frames] = tardiness_ns(f);
		add_to_totals(&t, f);
	}
	if (late_ns && t.frames) {
		qsort(late_ns, t.frames, sizeof(*late_ns), by_size);
		t.tardiness_p99_ns = late_ns[(t.frames - 1) * 99 / 100];
	}
	free(late_ns);
	return t;
}

void journal_write(const struct journal *j, FILE *out)
{
	for (size_t i = 0; i < j->count; i++) {
		const struct journal_frame *f = &j->frames[i];

		fprintf(out,
			"{\"type\": \"frame\", \"player\": %" PRIu32 ", \"frame\": %" PRId64
			", \"due_ns\": %" PRIu64 ", \"dispatch_ns\": %" PRIu64 ", \"shown\": %s}\n",
			f->player, f->frame, f->due_ns, f->dispatch_ns,
			f->shown ? "true" : "false");
	}
}
