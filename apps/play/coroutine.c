/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "coroutine.h"

#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* libavcodec needs some tens of kilobytes; untouched pages cost nothing. */
#define STACK_BYTES (512 * 1024)

struct coroutine {
	void (*body)(void *data);
	void *data;
	char *stack;
	size_t mapped_bytes;
	bool started;
	bool inside;
	bool finished;
	/* swapcontext() makes two system calls a switch, to save the signal mask, so ucontext only
	 * makes the first entry; after that _setjmp and _longjmp switch without any. */
	ucontext_t first_caller;
	ucontext_t first_entry;
	jmp_buf caller;
	jmp_buf here;
};

static void run_bodies(unsigned high, unsigned low)
{
	struct coroutine *c = (struct coroutine *)(((unsigned long)high << 32) | low);

	for (;;) {
		c->body(c->data);
		c->finished = true;
		coroutine_leave(c);
	}
}

static bool map_stack(struct coroutine *c)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	c->mapped_bytes = STACK_BYTES + page_bytes;
	c->stack = mmap(NULL, c->mapped_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->stack == MAP_FAILED)
		return false;
	/* An overflow faults instead of writing over its neighbour. */
	if (mprotect(c->stack, page_bytes, PROT_NONE)) {
		munmap(c->stack, c->mapped_bytes);
		return false;
	}
	return true;
}

static void prepare_entry(struct coroutine *c)
{
	getcontext(&c->first_entry);
	c->first_entry.uc_stack.ss_sp = c->stack;
	c->first_entry.uc_stack.ss_size = c->mapped_bytes;
	c->first_entry.uc_link = NULL;
	/* makecontext() passes integers only. */
	makecontext(&c->first_entry, (void (*)(void))run_bodies, 2,
		    (unsigned)((unsigned long)c >> 32), (unsigned)(unsigned long)c);
}

struct coroutine *coroutine_create(void (*body)(void *data), void *data)
{
	struct coroutine *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->body = body;
	c->data = data;
	if (!map_stack(c)) {
		free(c);
		return NULL;
	}
	prepare_entry(c);
	return c;
}

bool coroutine_enter(struct coroutine *c)
{
	assert(!c->inside);
	c->inside = true;
	c->finished = false;
	if (!_setjmp(c->caller)) {
		if (c->started)
			_longjmp(c->here, 1);
		c->started = true;
		swapcontext(&c->first_caller, &c->first_entry);
	}
	assert(!c->inside);
	return c->finished;
}

void coroutine_leave(struct coroutine *c)
{
	assert(c->inside);
	c->inside = false;
	if (!_setjmp(c->here))
		_longjmp(c->caller, 1);
	assert(c->inside);
}

void coroutine_destroy(struct coroutine *c)
{
	if (!c)
		return;
	munmap(c->stack, c->mapped_bytes);
	free(c);
}
