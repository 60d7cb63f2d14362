/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "report.h"

#include <inttypes.h>

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

static void write_start(FILE *log, const struct options *o, uint64_t origin_ns)
{
	static const char *const memberships[] = {"domain", "private", "none"};
	char text[1024];

	fprintf(log,
		"{\"type\": \"start\", \"players\": %" PRIu32 ", \"membership\": \"%s\", "
		"\"origin_ns\": %" PRIu64 ", \"event_ns\": %" PRIu64 ", \"start_ns\": %" PRIu64,
		o->players, memberships[o->membership], origin_ns, o->event_ns, o->start_ns);
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

static void write_summary(FILE *log, uint32_t i, const struct journal *journal,
			  const struct player *player)
{
	struct journal_totals t = journal_totals(journal, i);
	struct player_counts c = player_counts(player);

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
		", \"event_ns_max\": %" PRIu64 ", \"part_ns_max\": %" PRIu64
		", \"lost_records\": %" PRIu64 "}\n",
		c.wasted, c.damaged, c.work_ns, c.event_ns_max, c.part_ns_max,
		journal_lost(journal));
}

void report_write(FILE *log, const struct options *options, uint64_t origin_ns,
		  const struct journal *journal, struct player *const *players)
{
	write_start(log, options, origin_ns);
	journal_write(journal, log);
	for (uint32_t i = 0; i < options->players; i++)
		write_summary(log, i, journal, players[i]);
}

void report_say(const struct journal *journal)
{
	struct journal_totals t = journal_totals(journal, JOURNAL_ALL);

	printf("%" PRIu64 " of %" PRIu64
	       " frames shown; tardiness mean %.2f ms, p99 %.2f ms, max %.2f ms\n",
	       t.shown, t.frames,
	       t.frames ? (double)t.tardiness_ns_sum / (double)t.frames / 1e6 : 0.0,
	       (double)t.tardiness_p99_ns / 1e6, (double)t.tardiness_ns_max / 1e6);
}
