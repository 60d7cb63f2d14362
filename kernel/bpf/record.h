/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is recorded of members, for people who ask how late they are: the last seconds' tardiness, and demotions. The
 * loader makes a record when a thread joins, reads it, and removes it; nothing here decides anything.
 */
#ifndef CONSORT_RECORD_H
#define CONSORT_RECORD_H

#include "state.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RECORDS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* record_key */
	__type(value, struct consort_record);
} records SEC(".maps");

static inline u32 record_key(u32 client, u32 slot)
{
	return client * 64 + slot;
}

static inline struct consort_record *record_of(const struct task __arena *t)
{
	u32 key = record_key(t->client, t->slot);

	return bpf_map_lookup_elem(&records, &key);
}

/* Two for each octave, from a microsecond on. */
static inline u32 record_bucket(u64 late_ns)
{
	u32 octave = 10, bucket;

	if (late_ns < 1024)
		return 0;
	while (octave < 32 && late_ns >> (octave + 1) && can_loop)
		octave++;
	bucket = 2 * (octave - 10) + (late_ns >> (octave - 1) & 1) + 1;
	return bucket < RECORD_BUCKETS ? bucket : RECORD_BUCKETS - 1;
}

/*
 * A member has got the CPU, or keeps it: if its due event has expired, this is when that is dispatched. Each counts once.
 */
core_fn record_choice(struct task __arena *t in_arena, u64 now_ns)
{
	u64 due_ns = t->member.due_ns, late_ns;
	struct consort_record *r;
	struct consort_second *s;
	u32 second, bucket;

	if (due_ns > now_ns)
		return 0;
	r = record_of(t);
	if (!r || r->due_ns == due_ns)
		return 0;
	/* At first, what counts as due is that it has joined. */
	if (!r->due_ns) {
		r->due_ns = due_ns;
		return 0;
	}
	r->due_ns = due_ns;
	late_ns = now_ns - due_ns;
	second = now_ns / 1000000000;
	s = &r->seconds[second % RECORD_SECONDS];
	if (s->second != second) {
		s->second = second;
		s->events = 0;
		s->late_ns = 0;
		s->late_max_ns = 0;
		for (u32 i = 0; i < RECORD_BUCKETS && can_loop; i++)
			s->buckets[i] = 0;
	}
	s->events++;
	s->late_ns += late_ns;
	if (late_ns > s->late_max_ns)
		s->late_max_ns = late_ns;
	bucket = record_bucket(late_ns);
	/* Keeps the compiler from proving the bound needless: the verifier cannot follow its proof. */
	asm volatile("" : "+r"(bucket));
	if (bucket < RECORD_BUCKETS)
		s->buckets[bucket]++;
	return 0;
}

static inline void record_demotion(const struct task __arena *t, u32 why, u64 late_ns)
{
	struct consort_record *r = record_of(t);

	if (!r)
		return;
	r->demotions++;
	r->why = why;
	r->why_late_ns = late_ns;
}

#endif
