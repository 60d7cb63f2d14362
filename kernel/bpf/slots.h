/* SPDX-License-Identifier: GPL-2.0 */
/* Slots: what members publish, read with suspicion, and what they are told. Layout: abi/consort_abi.h. */
#ifndef CONSORT_SLOTS_H
#define CONSORT_SLOTS_H

#include "reason.h"
#include "record.h"

/* An event is interrupted this often at most. */
#define RESUMES_MAX 16

struct page_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct consort_mapping);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, CLIENTS_MAX);
	__type(key, u32);
	__array(values, struct page_map);
} clients SEC(".maps");

/* libbpf sizes the inner map's value by a variable of its type. */
struct consort_mapping mapping_type_for_libbpf SEC(".bss");

static inline struct consort_mapping *client_mapping(u32 client)
{
	void *page = bpf_map_lookup_elem(&clients, &client);
	u32 first = 0;

	return page ? bpf_map_lookup_elem(page, &first) : NULL;
}

static inline struct consort_page *client_page(u32 client)
{
	struct consort_mapping *m = client_mapping(client);

	return m ? &m->page : NULL;
}

/* The slot of a task that has joined; NULL once its client's page is gone. */
static inline struct consort_slot *slot_of(struct task __arena *t)
{
	struct consort_page *page = client_page(t->client);
	u32 slot = t->slot;

	if (!page || slot >= CONSORT_SLOTS)
		return NULL;
	return &page->slots[slot];
}

/*
 * A member that has not polled lost the CPU in the middle of an event, to an outsider. Who never polls has that
 * believed a few times only.
 */
static inline void slot_look_interrupted(struct task __arena *t, struct consort_slot *s)
{
	if (*(volatile u32 *)&s->poll_seq != t->poll_seq) {
		/* That it joined is no due event of its own, which would count as had. */
		if (t->is_new)
			t->member.due_ns = NEVER_NS;
		t->resumes = 0;
		t->is_new = 0;
		t->member.interrupted = 0;
		return;
	}
	t->member.interrupted = t->resumes < RESUMES_MAX;
	t->resumes += t->member.interrupted;
}

/*
 * Takes over what the member published. Values out of range count as absent. A new member that lost the CPU before its first
 * poll has published nothing yet: it is due still, as when it joined. Always inline: of a static function Linux 6.18's verifier says
 * that it has a bug ("unexpected regs").
 */
static __always_inline void slot_read(struct task __arena *t, struct consort_slot *s, u32 cpu,
				      u64 now_ns)
{
	u64 due_ns = *(volatile u64 *)&s->due_ns, key = *(volatile u64 *)&s->key;
	u32 priority = *(volatile u32 *)&s->priority;

	if (due_ns != NEVER_NS && due_ns > now_ns && due_ns - now_ns > CONSORT_DUE_AHEAD_MAX_NS) {
		due_ns = NEVER_NS;
		count_on(cpu)->refused_due++;
	}
	if (priority > CONSORT_PRIORITY_MAX)
		priority = PRIORITY_NONE;
	if (t->is_new && t->resumes < RESUMES_MAX && due_ns == NEVER_NS && priority == PRIORITY_NONE)
		return;
	member_publish(&t->member, domain_in(t->set, t->place), due_ns, priority, key, now_ns);
}

/* The same for a member that was interrupted between two polls. Returns whether it has a slot. */
static inline bool slot_refresh(struct task __arena *t, u32 cpu, u64 now_ns)
{
	struct consort_slot *s = slot_of(t);

	if (!s)
		return false;
	slot_look_interrupted(t, s);
	slot_read(t, s, cpu, now_ns);
	return true;
}

/* Tells a member why it is demoted, and notes it. */
static inline void slot_write_why(const struct task __arena *t, struct consort_slot *s, u32 why,
				  u64 late_ns)
{
	u64 late_us = late_ns / 1000;

	record_demotion(t, why, late_ns);
	if (late_us > CONSORT_WHY_US_MAX)
		late_us = CONSORT_WHY_US_MAX;
	note_demotion(t, why, late_us);
	s->why = why | (u32)late_us << CONSORT_WHY_BITS;
}

/* A member is about to run, or has just joined: it has not been told anything yet by which it could have polled. */
static inline void contract_begin(struct task __arena *t, u64 now_ns)
{
	t->began_ns = now_ns;
	t->began_charged_ns = t->charged_ns;
	t->yield_by_ns = NEVER_NS;
}

/* Tells a member about the others, and by when to poll. */
static inline void slot_write(struct consort_slot *s, struct domain __arena *d, u64 yield_by_ns)
{
	struct heap_link __arena *best = d->group.ready.top;
	u64 other_key = 0;
	u32 other_priority = PRIORITY_NONE;

	if (best) {
		struct member __arena *m = member_of(node_of_ready(best));

		other_priority = m->interrupted ? 0 : m->priority;
		other_key = m->interrupted ? 0 : m->key;
	}
	s->yield_by_ns = yield_by_ns;
	s->other_due_ns = domain_next_due_ns(d);
	s->other_key = other_key;
	s->other_priority = other_priority;
	s->standing = CONSORT_MEMBER;
}

#endif
