/* SPDX-License-Identifier: GPL-2.0 */
/* What `consort late`'s program and its loader share. */
#ifndef CONSORT_LATE_H
#define CONSORT_LATE_H

/* Runs that are remembered for each CPU: a power of two. */
#define LATE_RUNS 64
#define LATE_TASKS_MAX 32768
#define LATE_COMM_BYTES 16

/* One task's time on a CPU. */
struct late_run {
	unsigned long long from_ns;
	unsigned long long to_ns;
	unsigned long long interrupted_ns; /* of that, what interrupts took */
	int pid; /* the thread; 0: idle */
	int tgid;
	int priority; /* the kernel's: below 0 deadline, below 100 real time, 120 is nice 0 */
	unsigned int reason; /* enum consort_reason */
	char comm[LATE_COMM_BYTES];
};

/* How a wait began. */
enum late_began {
	LATE_LOST, /* it lost the CPU */
	LATE_WOKE, /* it had slept */
	LATE_FOUND, /* it waited already when looking on began */
};

/* A wait that was long: who waited, and who ran meanwhile where it waited. */
struct late_wait {
	unsigned long long since_ns;
	unsigned long long until_ns;
	int pid;
	int tgid;
	unsigned int cpu; /* whose runs these are */
	unsigned int began; /* enum late_began */
	unsigned int nr_runs; /* newest first */
	unsigned int goes_on; /* 1: it had not ended when looking on did */
	char comm[LATE_COMM_BYTES];
	struct late_run runs[LATE_RUNS];
};

/* All waits of a thread. */
struct late_task {
	unsigned long long since_ns; /* of the one that goes on; 0: none */
	unsigned long long waits;
	unsigned long long sum_ns;
	unsigned long long max_ns;
	unsigned long long over; /* waits that were long */
	unsigned long long moved_ns; /* when the one that goes on came to the CPU where it is */
	unsigned long long stay_ns; /* its longest stay on another CPU */
	unsigned int cpu; /* where it is */
	unsigned int stay_cpu; /* where that stay was */
	int tgid;
	unsigned int began;
	char comm[LATE_COMM_BYTES];
};

struct late_counts {
	unsigned long long switches; /* seen */
	unsigned long long unseen; /* long waits for which there was no room */
	unsigned long long unrecorded; /* records of a trace, the same */
};

#endif
