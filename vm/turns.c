// SPDX-License-Identifier: MIT OR Apache-2.0
// For boot-test: two CPUs hand a word to each other, and wait for it without a pause. Prints how long that took, in microseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

enum { TURNS = 2000 };
static volatile long word;

static void *take_turns(void *own)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((long)own, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return NULL;
	for (long turn = (long)own; turn < TURNS; turn += 2) {
		while (word != turn)
			;
		word = turn + 1;
	}
	return NULL;
}

int main(void)
{
	struct timespec begin, end;
	pthread_t other;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (pthread_create(&other, NULL, take_turns, (void *)1))
		return 1;
	take_turns((void *)0);
	pthread_join(other, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%ld\n",
	       (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000);
	return 0;
}
