/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* consort.h as a C program sees it. Needs a daemon at CONSORT_SOCKET; exits with 0 if all is as promised. */
#include <consort.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, \
				__LINE__, #condition, consort_last_error_text());         \
			_exit(1);                                                         \
		}                                                                         \
	} while (0)

static const struct consort_next busy = CONSORT_NEXT_BEST_EFFORT(5, 0);
static const struct consort_next nothing;

static void joining(void)
{
	struct consort_member *member, *second;
	struct consort_options options = { .order = 99 };
	char name[65] = { 0 };

	memset(name, 'x', 64);
	CHECK(!strcmp(consort_last_error_text(), ""));
	CHECK(consort_join(name, NULL, &member) == -ENAMETOOLONG);
	CHECK(strstr(consort_last_error_text(), "64"));
	CHECK(consort_join("a/b", NULL, &member) == -EINVAL);
	CHECK(consort_join("\xff", NULL, &member) == -EINVAL);
	CHECK(consort_join("a", &options, &member) == -EINVAL);
	options = (struct consort_options){ .flags = 1u << 31 };
	CHECK(consort_join("a", &options, &member) == -EINVAL);
	options = (struct consort_options){ .event_ns = 1 };
	CHECK(consort_join("a", &options, &member) == -EINVAL);
	CHECK(consort_join("a", NULL, NULL) == -EINVAL);
	CHECK(consort_reserve(NULL, 0.1, 30000000) == -EINVAL);
	CHECK(consort_reserve("guaranteed", 1.5, 30000000) == -EINVAL);
	CHECK(strstr(consort_last_error_text(), "rate 1.5 is out of range"));
	CHECK(consort_reserve("guaranteed", 0.5, 30000000) == 0);
	CHECK(consort_lend(99, -0.1) == -EINVAL);
	CHECK(consort_lend(99, 0.1) == 0);
	CHECK(consort_recollect(99, 0) == 0);
	CHECK(consort_release() == 0);
	CHECK(consort_join(NULL, NULL, &member) == 0);
	CHECK(consort_join("a", NULL, &second) == -EEXIST);
	CHECK(consort_leave(member) == 0);
	CHECK(consort_leave(NULL) == 0);
}

static int reports;

static void told(struct consort_loop *loop, int error, const struct consort_usage *usage, void *data)
{
	struct consort_usage_watch **watch = data;

	CHECK(error == 0 && usage->asked == 0.25 && usage->given == 0.5 && usage->late_s == 3);
	CHECK(usage->used_1s == 0.1 && usage->used_10s < 0 && usage->suggested < 0);
	if (++reports == 2) {
		CHECK(consort_usage_watch_end(*watch) == 0);
		CHECK(consort_loop_stop(loop) == 0);
	}
}

static void feedback(void)
{
	struct consort_usage_watch *watch;
	struct consort_usage usage;
	struct consort_loop *loop;

	CHECK(consort_usage(NULL) == -EINVAL);
	CHECK(consort_usage(&usage) == 0 && usage.asked == 0.25 && usage.threads == 2);
	CHECK(consort_loop_new(NULL, &loop) == 0);
	CHECK(consort_loop_watch_usage(loop, 1, 0, told, NULL, &watch) == -EINVAL);
	CHECK(consort_loop_watch_usage(loop, 100000000, 0, NULL, NULL, &watch) == -EINVAL);
	CHECK(consort_loop_watch_usage(loop, 100000000, 0, told, NULL, NULL) == -EINVAL);
	CHECK(consort_loop_watch_usage(loop, 100000000, 0, told, &watch, &watch) == 0);
	CHECK(consort_loop_run(loop) == 0 && reports == 2);
	CHECK(consort_loop_watch_usage(loop, 100000000, 0, told, &watch, &watch) == 0);
	CHECK(consort_loop_destroy(loop) == 0);
	CHECK(consort_usage_watch_end(watch) == 0);
	CHECK(consort_usage_watch_end(NULL) == 0);
}

static void polling(void)
{
	struct consort_options options = { .event_ns = 1000000, .order = CONSORT_ORDER_PROGRAM };
	struct consort_next next = busy;
	struct consort_others others, same;
	struct consort_member *member;
	uint64_t due_ns;

	CHECK(consort_join("a", &options, &member) == 0);
	CHECK(consort_poll(member, &busy, &others) == 0);
	CHECK(others.standing == CONSORT_MEMBER && others.yield_by_ns == CONSORT_NEVER);
	CHECK(consort_others(member, &same) == 0 && !memcmp(&others, &same, sizeof(same)));
	CHECK(consort_poll_at(member, &busy, consort_now_ns(), NULL) == 0);
	CHECK(consort_poll(NULL, &busy, NULL) == -EINVAL);
	CHECK(consort_poll(member, NULL, NULL) == -EINVAL);
	CHECK(consort_poll(member, &nothing, NULL) == -EINVAL);
	next.priority = CONSORT_PRIORITY_MAX + 1;
	CHECK(consort_poll(member, &next, NULL) == -EINVAL);
	/* What is half said is refused, and says what lacks. */
	next = (struct consort_next){ .priority = 5 };
	CHECK(consort_poll(member, &next, NULL) == -EINVAL);
	CHECK(strstr(consort_last_error_text(), "best_effort"));
	next = (struct consort_next){ .best_effort = 2 };
	CHECK(consort_poll(member, &next, NULL) == -EINVAL);
	next = (struct consort_next)CONSORT_NEXT_BOTH(CONSORT_NEVER, 0, 7);
	CHECK(consort_poll(member, &next, NULL) == 0);
	next = (struct consort_next){ .due_ns = CONSORT_NEVER, .priority = CONSORT_PRIORITY_NONE };
	CHECK(consort_poll(member, &next, NULL) == -EINVAL);
	next = nothing;
	next.due_ns = consort_now_ns() + 2 * CONSORT_DUE_AHEAD_MAX_NS;
	CHECK(consort_poll(member, &next, NULL) == -EINVAL);
	next.due_ns = due_ns = consort_now_ns() + 2000000;
	CHECK(consort_poll(member, &next, NULL) == 0 && consort_now_ns() >= due_ns);
	CHECK(!strcmp(consort_why(member), ""));
	CHECK(consort_why(NULL) == NULL);
	CHECK(consort_leave(member) == 0);
	/* A member that has left is told so, and not whatever freed memory says. */
	CHECK(consort_poll(member, &busy, NULL) == -ENOTCONN);
	CHECK(consort_poll_at(member, &nothing, 0, NULL) == -ENOTCONN);
	CHECK(consort_others(member, &others) == -ENOTCONN);
	CHECK(consort_leave(member) == 0);
	CHECK(consort_join("a", &options, &member) == 0);
	CHECK(consort_poll(member, &busy, NULL) == 0);
	CHECK(consort_leave(member) == 0);
}

static void count_warning(const char *text, void *data)
{
	CHECK(strstr(text, "polls again and again"));
	++*(int *)data;
}

/* A member that only spins is told so, once. */
static void spinning(void)
{
	struct consort_member *member;
	int warnings = 0;

	consort_on_warning(count_warning, &warnings);
	CHECK(consort_join("a", NULL, &member) == 0);
	for (int i = 0; i < 1 << 18; i++)
		CHECK(consort_poll_at(member, &busy, 0, NULL) == 0);
	CHECK(consort_leave(member) == 0);
	CHECK(warnings == 1);
	consort_on_warning(NULL, NULL);
}

static void polling_with_epoll(void)
{
	struct consort_member *member;
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 7 };
	struct consort_next next = nothing;
	int epoll_fd = epoll_create1(0), event_fd = eventfd(1, 0);

	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event) == 0);
	CHECK(consort_join("a", NULL, &member) == 0);
	event.data.u64 = 0;
	CHECK(consort_poll_epoll(member, &nothing, epoll_fd, &event, 1, NULL) == 1 &&
	      event.data.u64 == 7);
	CHECK(consort_poll_epoll(member, &busy, epoll_fd, &event, 1, NULL) == 0);
	CHECK(consort_poll_epoll(member, &nothing, epoll_fd, &event, 0, NULL) == -EINVAL);
	CHECK(consort_poll_epoll(member, &nothing, event_fd, &event, 1, NULL) == -EINVAL);
	CHECK(strstr(consort_last_error_text(), "epoll_create1"));
	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_DEL, event_fd, NULL) == 0);
	next.due_ns = consort_now_ns() + 2000000;
	CHECK(consort_poll_epoll(member, &next, epoll_fd, &event, 1, NULL) == 0);
	CHECK(consort_now_ns() >= next.due_ns);
	CHECK(consort_leave(member) == 0);
	close(epoll_fd);
	close(event_fd);
}

struct shared {
	struct consort_member *member;
	struct consort_loop *loop;
	struct consort_event *event;
};

static void *in_another_thread(void *data)
{
	struct shared *shared = data;
	struct consort_others others;
	struct consort_member *own;
	struct consort_loop *loop;

	CHECK(consort_poll(shared->member, &busy, NULL) == -EPERM);
	CHECK(strstr(consort_last_error_text(), "thread"));
	CHECK(consort_others(shared->member, &others) == -EPERM);
	CHECK(consort_leave(shared->member) == -EPERM);
	CHECK(consort_loop_new(shared->member, &loop) == -EPERM);
	CHECK(consort_loop_run(shared->loop) == -EPERM);
	CHECK(consort_loop_stop(shared->loop) == -EPERM);
	CHECK(consort_loop_destroy(shared->loop) == -EPERM);
	CHECK(consort_event_submit_due(shared->loop, shared->event, 0) == -EPERM);
	CHECK(consort_event_cancel(shared->event) == -EPERM);
	/* Joins, and ends without leaving. */
	CHECK(consort_join("b", NULL, &own) == 0);
	CHECK(consort_poll(own, &busy, NULL) == 0);
	return NULL;
}

static void ignore(struct consort_loop *loop, struct consort_event *event, void *data)
{
	(void)loop, (void)event, (void)data;
}

static void threads_and_forks(void)
{
	struct consort_event event;
	struct shared shared = { .event = &event };
	struct consort_member *own;
	pthread_t thread;
	int status;

	consort_event_init(&event, ignore, NULL);
	CHECK(consort_join("a", NULL, &shared.member) == 0);
	CHECK(consort_loop_new(shared.member, &shared.loop) == 0);
	CHECK(consort_event_submit_best_effort(shared.loop, &event, 0, 0) == 0);
	CHECK(pthread_create(&thread, NULL, in_another_thread, &shared) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(consort_poll(shared.member, &busy, NULL) == -ESTALE);
		CHECK(consort_loop_run(shared.loop) == -ESTALE);
		CHECK(consort_join("a", NULL, &own) == 0);
		CHECK(consort_poll(own, &busy, NULL) == 0);
		CHECK(consort_leave(own) == 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(consort_leave(shared.member) == 0);
	CHECK(consort_loop_run(shared.loop) == -ENOTCONN);
	CHECK(consort_loop_destroy(shared.loop) == 0);
	CHECK(consort_event_is_submitted(&event) == 0);
}

struct log {
	char text[64];
	struct consort_event *other;
	int fd;
};

static void on_due(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct log *log = data;

	strcat(log->text, "d");
	CHECK(!consort_event_is_submitted(event));
	CHECK(consort_loop_run(loop) == -EBUSY);
	CHECK(consort_loop_destroy(loop) == -EBUSY);
	/* Its memory is the caller's again, even now. */
	CHECK(consort_event_finish(event) == 0);
	free(event);
}

static void on_best_effort(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct log *log = data;
	uint64_t one = 1;

	strcat(log->text, "b");
	if (strlen(log->text) < 4)
		CHECK(consort_event_submit_best_effort(loop, event, 3, 0) == 0);
	else
		CHECK(write(log->fd, &one, sizeof(one)) == sizeof(one));
}

static void on_ready(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct log *log = data;

	CHECK(consort_event_ready(event) == EPOLLIN);
	strcat(log->text, "r");
	CHECK(consort_loop_stop(loop) == 0);
}

static void event_loop(struct consort_member *member)
{
	struct consort_event *due = malloc(sizeof(*due)), best_effort, ready, spare;
	struct log log = { .fd = eventfd(0, 0) };
	struct consort_loop *loop, *second;
	struct consort_others others;

	CHECK(consort_loop_new(member, &loop) == 0);
	CHECK(consort_loop_others(loop, &others) == 0);
	CHECK(others.standing == (member ? CONSORT_MEMBER : CONSORT_OUTSIDE));
	CHECK(consort_loop_set_fd_interval_ns(loop, 0) == 0);
	consort_event_init(due, on_due, &log);
	consort_event_init(&best_effort, on_best_effort, &log);
	consort_event_init(&ready, on_ready, &log);
	consort_event_init(&spare, NULL, NULL);
	CHECK(consort_event_submit_due(loop, &spare, 0) == -EINVAL);
	CHECK(consort_event_cancel(&spare) == 0 && consort_event_finish(&spare) == 0);
	consort_event_init(&spare, ignore, NULL);
	CHECK(consort_event_submit_due(NULL, &spare, 0) == -EINVAL);
	CHECK(consort_event_submit_fd(loop, &spare, -1, EPOLLIN, 0, 0) == -EBADF);
	CHECK(consort_event_submit_fd(loop, &spare, log.fd, 0, 0, 0) == -EINVAL);
	CHECK(consort_event_submit_best_effort(loop, &spare, CONSORT_PRIORITY_NONE, 0) == -EINVAL);
	CHECK(consort_event_submit_fd(loop, &ready, log.fd, EPOLLIN, 0, 0) == 0);
	CHECK(consort_event_submit_fd(loop, &spare, log.fd, EPOLLIN, 0, 0) == -EEXIST);
	CHECK(consort_event_submit_best_effort(loop, &best_effort, 3, 0) == 0);
	CHECK(consort_event_submit_best_effort(loop, &best_effort, 9, 0) == 0); /* no effect */
	CHECK(consort_event_submit_due(loop, due, consort_now_ns()) == 0);
	CHECK(consort_event_is_submitted(due) == 1);
	CHECK(consort_loop_run(loop) == 0);
	CHECK(!strcmp(log.text, "dbbbr"));
	CHECK(consort_event_ready(&ready) == 0);

	CHECK(consort_loop_new(NULL, &second) == 0);
	CHECK(consort_event_submit_best_effort(second, &ready, 0, 0) == -EBUSY);
	CHECK(consort_event_finish(&ready) == 0);
	CHECK(consort_event_submit_best_effort(second, &ready, 0, 0) == 0);
	CHECK(consort_loop_destroy(second) == 0);
	CHECK(consort_event_is_submitted(&ready) == 0); /* the loop let go of it */
	CHECK(consort_event_cancel(&ready) == 0);
	CHECK(consort_loop_destroy(loop) == 0);
	CHECK(consort_loop_destroy(NULL) == 0);
	CHECK(consort_event_finish(&best_effort) == 0);
	CHECK(consort_event_finish(&spare) == 0);
	close(log.fd);
}

struct served {
	pthread_t thread;
	pid_t tid;
	int go;
	struct consort_train train;
};

static void *server(void *data)
{
	struct served *s = data;

	__atomic_store_n(&s->tid, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&s->go, __ATOMIC_ACQUIRE))
		usleep(100);
	usleep(10000); /* the client waits by then */
	return (void *)(long)consort_train_end(&s->train);
}

static void trains(void)
{
	struct served s = { 0 };
	void *end;

	CHECK(consort_train_begin(NULL, 1) == -EINVAL);
	CHECK(consort_train_begin(&s.train, gettid()) == -EDEADLK);
	CHECK(consort_train_begin(&s.train, -1) == -ESRCH);
	CHECK(consort_train_end(&s.train) == -EPERM);
	CHECK(consort_train_wait(&s.train, CONSORT_NEVER) == 0); /* there is no call */
	CHECK(pthread_create(&s.thread, NULL, server, &s) == 0);
	while (!__atomic_load_n(&s.tid, __ATOMIC_ACQUIRE))
		usleep(100);
	CHECK(consort_train_begin(&s.train, s.tid) == 0);
	CHECK(consort_train_begin(&s.train, s.tid) == -EBUSY);
	CHECK(consort_train_wait(&s.train, consort_now_ns() + 1000000) == -ETIMEDOUT);
	CHECK(strstr(consort_last_error_text(), "wait again"));
	__atomic_store_n(&s.go, 1, __ATOMIC_RELEASE);
	CHECK(consort_train_wait(&s.train, CONSORT_NEVER) == 0);
	CHECK(pthread_join(s.thread, &end) == 0 && !end);
	CHECK(s.train.word == 0);
	CHECK(consort_train_begin(&s.train, s.tid) == 0);
	CHECK(consort_train_wait(&s.train, CONSORT_NEVER) == -ESRCH);
}

static void *sleeps_in_polls(void *data)
{
	struct consort_next next = { .priority = CONSORT_PRIORITY_NONE };
	struct consort_member *member;

	CHECK(consort_join("a", NULL, &member) == 0);
	__atomic_store_n((int *)data, 1, __ATOMIC_RELEASE);
	for (;;) {
		next.due_ns = consort_now_ns() + 20000000;
		CHECK(consort_poll(member, &next, NULL) == 0);
		pthread_testcancel();
	}
	return NULL;
}

/* A thread that is cancelled while it sleeps in a poll ends after it, and leaves. */
static void cancellation(void)
{
	struct consort_member *member;
	pthread_t thread;
	int joined = 0;
	void *end;

	CHECK(pthread_create(&thread, NULL, sleeps_in_polls, &joined) == 0);
	while (!__atomic_load_n(&joined, __ATOMIC_ACQUIRE))
		usleep(100);
	usleep(5000); /* it sleeps by then */
	CHECK(pthread_cancel(thread) == 0);
	CHECK(pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
	CHECK(consort_join("a", NULL, &member) == 0);
	CHECK(consort_why_alone(member) == 0);
	CHECK(consort_leave(member) == 0);
}

static void woken(struct consort_loop *loop, void *data)
{
	(*(int *)data)++;
	CHECK(consort_loop_stop(loop) == 0);
}

static void *wakes(void *waker)
{
	consort_waker_wake(waker);
	return NULL;
}

static void other_loops(void)
{
	struct consort_waker *waker;
	struct consort_loop *loop;
	pthread_t thread;
	int times = 0;

	CHECK(consort_loop_new(NULL, &loop) == 0);
	CHECK(consort_waker_new(loop, CONSORT_PRIORITY_NONE, woken, &times, &waker) == -EINVAL);
	CHECK(consort_waker_new(loop, 1, NULL, NULL, &waker) == -EINVAL);
	CHECK(consort_waker_new(loop, 1, woken, &times, &waker) == 0);
	CHECK(pthread_create(&thread, NULL, wakes, waker) == 0);
	CHECK(consort_loop_run(loop) == 0 && times == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(consort_loop_fd(loop) >= 0 && consort_loop_next_due_ns(loop) == CONSORT_NEVER);
	consort_waker_wake(waker);
	CHECK(consort_loop_run_ready(loop) == 0 && times == 2);
	CHECK(consort_loop_run_ready(loop) == 0 && times == 2);
	CHECK(consort_waker_end(waker) == 0);
	CHECK(consort_loop_destroy(loop) == 0);
	CHECK(consort_loop_run_ready(NULL) == -EINVAL);
}

/* Nobody records this program. */
static void tracing(void)
{
	CHECK(consort_trace_is_recorded() == 0);
	consort_trace_event("test", "value_ns", INT64_MIN);
	consort_trace_event(NULL, NULL, 0);
}

static struct consort_member *member;

/* Runs after the first thread's exit, which has left. */
static void at_exit(void)
{
	struct consort_next next = CONSORT_NEXT_BEST_EFFORT(1, 0);

	if (consort_leave(member) != 0 || consort_poll(member, &next, NULL) != -ENOTCONN) {
		fprintf(stderr, "at exit: %s\n", consort_last_error_text());
		_exit(1);
	}
}

int main(void)
{
	CHECK(atexit(at_exit) == 0);
	joining();
	feedback();
	polling();
	spinning();
	polling_with_epoll();
	threads_and_forks();
	trains();
	cancellation();
	other_loops();
	tracing();
	event_loop(NULL);
	CHECK(consort_join("a", NULL, &member) == 0);
	event_loop(member);
	CHECK(consort_leave(member) == 0);
	CHECK(consort_join("a", NULL, &member) == 0);
	return 0;
}
