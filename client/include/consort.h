/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libconsort: be on time together with the other programs of a cooperation domain.
 *
 * A thread joins a domain, then calls consort_poll() between its units of work ("events"). Each poll says
 * when the thread wants the CPU next, gives the CPU to whoever needs it more, and returns what the others
 * wait for. The same program runs unchanged where no Consort scheduler is there: members then cooperate among
 * themselves (CONSORT_HOST=kernel, user or none chooses), or are on their own.
 *
 * Conventions
 *  - Functions that can fail return 0, or a negative errno; consort_last_error_text() says in words what
 *    was wrong, what was expected and what to do.
 *  - Times are absolute nanoseconds of CLOCK_MONOTONIC and their names end in _ns. CONSORT_NEVER: no such time.
 *  - A member, a loop and the events submitted to it belong to the thread that made them; using them from
 *    another thread is refused with -EPERM, and nothing else in the library needs a lock.
 *  - After fork(), the child is not a member: using the parent's handles fails with -ESTALE until the child
 *    joins for itself.
 *  - No function installs a signal handler or starts a thread.
 *  - No function is a cancellation point, nor is a callback of a loop: a thread that was cancelled (pthread_cancel) meanwhile
 *    ends at its next one outside.
 */
#ifndef CONSORT_H
#define CONSORT_H

#include <stdint.h>

/* CONSORT_NEVER, CONSORT_PRIORITY_*, CONSORT_NAME_MAX, enum consort_order, enum consort_join_flags,
 * enum consort_standing, enum consort_why. */
#include "consort_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct epoll_event;

/* ---- time and errors ---- */

/* The clock that every time here is of: CLOCK_MONOTONIC, in nanoseconds. */
uint64_t consort_now_ns(void);

/*
 * Why the calling thread's last failed call failed; "" if none has. The text belongs to the library and is
 * valid until this thread's next failing call.
 */
const char *consort_last_error_text(void);

/* ---- members ---- */

/* A thread's membership in a domain. */
struct consort_member;

/*
 * What the domain is like; taken from the member that creates it. Later members must name the same options
 * or the daemon refuses them with -EINVAL. All zero, or a null pointer, is the default.
 */
struct consort_options {
	uint64_t event_ns; /* longest event that a member runs, CONSORT_EVENT_MIN_NS to _MAX_NS; 0: scheduler's choice */
	uint32_t order; /* enum consort_order */
	uint32_t flags; /* enum consort_join_flags */
};

/*
 * Makes the calling thread a member of the domain of that name (1 to CONSORT_NAME_MAX visible ASCII characters
 * other than '/'). A null or empty name is the domain that `consort run --domain` chose for the program; where it
 * chose none, the thread gets a private domain of its own.
 *
 * Finds the daemon at CONSORT_SOCKET_PATH, or at the path in CONSORT_SOCKET (ignored in set-user-id
 * programs). If no daemon is there, or it does not let the thread in (a quota, a container, another version),
 * joining succeeds all the same: without a daemon, members of a named domain cooperate among themselves, at user
 * level; else the member is on its own, and consort_why_alone() says why. Either tries again by itself at most every
 * 250 ms while it polls, and becomes a member once it is let in. Waits at most one second for the daemon.
 *
 * Also sets the thread's timer slack to 1 ns, so that it wakes on time; consort_leave() restores it.
 *
 * *member belongs to the library: it is valid until the thread exits, which leaves by itself; that of the first thread in
 * exit handlers (atexit), too, where calls with it fail with -ENOTCONN, but consort_leave().
 *
 * -EINVAL        a name with '/' or anything but visible ASCII; event_ns, order or flags out of range; other
 *                options than those that the domain has
 * -ENAMETOOLONG  the name has more than CONSORT_NAME_MAX bytes
 * -EEXIST        this thread is a member already
 * -EAGAIN        CONSORT_SLOTS threads of this process are members already
 * others         a system call's
 */
int consort_join(const char *domain, const struct consort_options *options,
		 struct consort_member **member);

/*
 * Why the daemon has not let the thread in: a negative errno, and consort_last_error_text() has its words. 0: it has, or
 * no daemon is there.
 *
 * -EPROTO  what answers at the socket does not speak this version's language
 * -EDQUOT  the user has as many members, domains or programs as one may have
 * -EACCES  the socket, or the daemon, cannot be reached from here; it cannot see this process
 * -ESRCH   the thread is not under the scheduler: it has a real-time policy, or has not opted in
 * -EPERM   called by another thread than the member's
 */
int consort_why_alone(struct consort_member *member);

/*
 * Leaves the domain and restores the timer slack. Calls with the handle fail with -ENOTCONN afterwards, until the
 * thread joins again or ends. A null pointer is ignored. A loop made for the member fails with -ENOTCONN from then on.
 *
 * -EPERM  called by another thread than the member's
 * -EBUSY  called by a signal handler inside of another call of the member
 */
int consort_leave(struct consort_member *member);

/* What the thread wants the CPU for next. All zero: nothing. */
struct consort_next {
	uint64_t due_ns; /* its earliest due event; 0 or CONSORT_NEVER: none; at most CONSORT_DUE_AHEAD_MAX_NS ahead */
	uint64_t key; /* orders best-effort events of equal priority: smaller first */
	uint32_t priority; /* of its most important best-effort event: 0 runs first */
	uint32_t best_effort; /* 1: it has one, of that priority and key; 0: it has none */
};

/* Initialisers: struct consort_next next = CONSORT_NEXT_DUE(consort_now_ns() + 10000000); */
#define CONSORT_NEXT_DUE(due_ns) { (due_ns), 0, 0, 0 }
#define CONSORT_NEXT_BEST_EFFORT(priority, key) { 0, (key), (priority), 1 }
#define CONSORT_NEXT_BOTH(due_ns, priority, key) { (due_ns), (key), (priority), 1 }

/* What the other members want, and what the scheduler says of this one. */
struct consort_others {
	uint64_t yield_by_ns; /* poll again by this time; CONSORT_NEVER: whenever */
	uint64_t due_ns; /* earliest due event of the others; CONSORT_NEVER: none */
	uint64_t key; /* most important best-effort event of the others that wait for the CPU */
	uint32_t priority; /* CONSORT_PRIORITY_NONE: none */
	uint32_t standing; /* enum consort_standing; CONSORT_OUTSIDE while no scheduler is there */
};

/*
 * Publishes what the thread wants next, and returns when it is its turn:
 *  - at once and without a system call, if it has work and nobody else's is more urgent;
 *  - after yielding to the others (one system call), if somebody's is, or if the member is demoted: a poll
 *    before the yield-by time restores it;
 *  - at due_ns, if it has no best-effort event and due_ns lies in the future. May return a little earlier
 *    when a signal handler ran: look at the clock before running a due event.
 *
 * others may be null.
 *
 * -EINVAL    priority or due_ns out of range; a priority or key without best_effort; neither a due time nor a
 *            best-effort event (it would sleep for ever)
 * -EPERM     called by another thread than the member's
 * -ESTALE    the process was forked after joining
 * -ENOTCONN  the member has left
 */
int consort_poll(struct consort_member *member, const struct consort_next *next,
		 struct consort_others *others);

/* The same for a caller that has just read consort_now_ns(). A now_ns in the past only delays yielding. */
int consort_poll_at(struct consort_member *member, const struct consort_next *next, uint64_t now_ns,
		    struct consort_others *others);

/*
 * The same for a program with its own epoll instance: where consort_poll() sleeps, this one also returns
 * when a file descriptor of epoll_fd is ready. Neither a due time nor a best-effort event is allowed: it then
 * waits for the file descriptors alone. Looks at them only when it sleeps; a program that always has
 * best-effort events calls epoll_wait() itself with a timeout of 0 now and then.
 *
 * Returns the number of events written to events (0 to max_events), or a negative errno.
 */
int consort_poll_epoll(struct consort_member *member, const struct consort_next *next, int epoll_fd,
		       struct epoll_event *events, int max_events, struct consort_others *others);

/* What the scheduler says right now, without polling. Same errors as consort_poll(). */
int consort_others(struct consort_member *member, struct consort_others *others);

/*
 * Why the member was last demoted, in words: what it did, and what to do instead; "" if it never was, or is on its own.
 * The text belongs to the library and is valid until this thread's next call of this function. A null pointer if the
 * member is null or another thread's.
 */
const char *consort_why(struct consort_member *member);

/*
 * What the library has to say that is no error: that a member only spins, or that a loop's member was demoted; each is
 * said once. warn gets the text, in the thread that it concerns; null lets it go to standard error, as at first.
 */
void consort_on_warning(void (*warn)(const char *text, void *data), void *data);

/* ---- names, state and control ---- */

/*
 * Says what the calling thread is called in group files (`consort apply`; 1 to CONSORT_NAME_MAX of a-z, A-Z, 0-9, '-' and
 * '_'), whether one names it yet or not. From then on, or from when one does, the group's decision function decides when
 * it runs. Without a daemon it is on its own as a member is, and announces itself again while it tells something.
 *
 * The thread may do what it likes: only members of `coop` groups poll. *member is as from consort_join(), and
 * consort_leave() takes the name back.
 *
 * -EINVAL  a name that is none, or null
 * others   consort_join()'s
 */
int consort_announce(const char *name, struct consort_member **member);

/*
 * Publishes a state variable, or reads a control variable, by its place in the group file (0 to CONSORT_VARIABLES - 1); no
 * system call. `consort accessors` makes functions that have the file's names and types. A control variable is 0 until
 * the decision function has said something.
 *
 * -EINVAL    index is out of range; value is null
 * -EPERM     called by another thread than the member's
 * -ESTALE    the process was forked since
 * -ENOTCONN  the member has left
 */
int consort_set_state(struct consort_member *member, uint32_t index, int64_t value);
int consort_get_control(struct consort_member *member, uint32_t index, int64_t *value);

/*
 * A state variable that other threads of this program set as well, such as the level of a queue, which its consumer changes:
 * from then on it is set through *shared only, by any thread, with a lock that nobody holds for long; not by signal
 * handlers, which may have interrupted who holds it. *shared is valid until consort_shared_state_end(), also when its thread has ended; a null pointer is ignored. Errors as for consort_set_state().
 */
struct consort_shared_state;
int consort_share_state(struct consort_member *member, uint32_t index,
			struct consort_shared_state **shared);
void consort_shared_state_set(const struct consort_shared_state *shared, int64_t value);
void consort_shared_state_end(struct consort_shared_state *shared);

/*
 * What the decision function is told, and looks at at once. Errors as above.
 *  - The thread is about to submit something to the server that follows it, where it may sleep; and has done so: the server
 *    runs next.
 *  - It has done what its interval was for, such as a frame, and needs no more of it.
 *  - The plans of its group begin now.
 *  - It shall look at state variables that were published; it does so anyway when the thread gives the CPU up.
 */
int consort_begin_submission(struct consort_member *member);
int consort_end_submission(struct consort_member *member);
int consort_done(struct consort_member *member);
int consort_trigger_plans(struct consort_member *member);
int consort_look(struct consort_member *member);

/* ---- reservations ---- */

/*
 * Reserves a rate, a part of one CPU (above 0, at most 1), of a class for this process and all that it will start; or
 * changes what it has reserved, in one step. period_ns, 1 ms to 10 s, is the time over which the rate is needed.
 * Waits at most one second. After an error nothing has changed.
 *
 * -EINVAL    the rate is out of range; class is null
 * -ENOENT    there is no such class: see `consort class list`
 * -ERANGE    rate or period are out of the daemon's range
 * -ENOSPC    the class has not that much left; the text has the numbers
 * -EDQUOT    the user's limit
 * -ENOTCONN  no daemon is there
 */
int consort_reserve(const char *class_name, double rate, uint64_t period_ns);

/* Ends this process' reservation. -ENOENT: it has none. */
int consort_release(void);

/*
 * Lends a part of this process' reservation to a process or thread, until it is recollected or either side ends. A
 * receiver without a reservation gets one in the same class.
 *
 * -EINVAL  the rate is out of range; to itself; in a circle; into another class
 * -ENOENT  this process has no reservation
 * -ENOSPC  more than it has left
 * -EPERM   a stranger without a reservation
 * -ESRCH   there is no such process or thread
 */
int consort_lend(int to, double rate);

/* Takes back what was lent to it, or all of it if rate is 0. -ENOENT: nothing is lent there. -ENOSPC: less is. */
int consort_recollect(int to, double rate);

/* ---- trains ---- */

/*
 * A call of a client to its server, in memory that both share, of any process; one at a time. While the client waits,
 * the server runs in its place: at its rate, on its reservation. Nested calls carry that on. All zero: no call. The
 * memory must stay for as long as the server may end the call.
 */
struct consort_train {
	uint32_t word;
};

/*
 * A call to the thread `server` (gettid()) begins: to be called before the request is sent, by whatever means.
 *
 * -EBUSY    the call before has not ended
 * -EDEADLK  the server is the caller
 * -ESRCH    server is no thread's number
 * -EINVAL   train is null
 */
int consort_train_begin(struct consort_train *train, int server);

/*
 * Waits until the server has ended the call; at once if it has, or if there is none. until_ns: CONSORT_NEVER, or when
 * to give up.
 *
 * -ETIMEDOUT  not yet: the call goes on, wait again
 * -ESRCH      the server has ended without doing so, or there is no such thread: the call is over
 * -EDEADLK    the server waits for the caller: the call is over
 * -EPERM      the server is a thread of the kernel's
 * -EINVAL     the memory was written to by somebody else; train is null
 * -ENOSYS     a kernel before Linux 5.14
 */
int consort_train_wait(struct consort_train *train, uint64_t until_ns);

/* The server's answer: the client goes on. -EPERM: no call to the calling thread is under way. -EINVAL: null. */
int consort_train_end(struct consort_train *train);

/* What a reservation asked for, has, and uses. Rates are parts of one CPU; below 0: nothing to tell yet. */
struct consort_usage {
	double asked; /* the nominal rate */
	double lent; /* of that, what others use now */
	double held; /* what others have lent to it */
	double given; /* the effective rate, with credits counted: what it has while all of its class want theirs */
	double used_1s, used_10s, used_60s;
	double suggested; /* the nominal rate that would suit its recent use */
	uint32_t late_s; /* of the last sixty seconds, those in which it used all that it was given */
	uint32_t threads; /* that share it now */
};

/*
 * What this process' reservation has now. Waits at most one second; consort_loop_watch_usage() asks without waiting.
 * -ENOENT: it has none. -ENOTCONN: no daemon is there.
 */
int consort_usage(struct consort_usage *usage);

/* ---- traces ---- */

/*
 * Says a value of the calling thread to `consort trace record`, if that has started the program: a line of family and
 * name, such as "decoder" and "frame_ns". The name's end is its unit. Of "family/name" the first 32 bytes count; null is an
 * empty text. No system call and no lock, from any thread; a load and a branch if nobody records. Where there is no room,
 * the event is lost, and the trace says how many were.
 *
 * Due events of members and loops are in the trace by themselves.
 */
void consort_trace_event(const char *family, const char *name, int64_t value);

/* 1: somebody records this program, 0: nobody does. For values that are costly to find. */
int consort_trace_is_recorded(void);

/* ---- event loop ---- */

/* Runs one thread's events: expired due events first, then best-effort events by (priority, key). */
struct consort_loop;
struct consort_event;

/* May submit and cancel any event, its own too, and may finish it. data is what consort_event_init() got. */
typedef void (*consort_callback)(struct consort_loop *loop, struct consort_event *event, void *data);

/*
 * An event, embedded wherever the program likes. Each submission is dispatched once; the callback may
 * submit it again. The fields are the library's. Must stay where it is from its first submission until
 * consort_event_finish().
 */
struct consort_event {
	struct consort_loop *loop;
	consort_callback callback;
	void *data;
	uint64_t id;
};

/*
 * Makes a loop for the calling thread. With a member, the loop polls on its behalf, and the two proxy events
 * that stand for the other members take part in its queues. With a null member it works alone.
 * The caller owns *loop: consort_loop_destroy() frees it.
 *
 * -EPERM  the member is another thread's
 * others  epoll_create1()'s
 */
int consort_loop_new(struct consort_member *member, struct consort_loop **loop);

/* Frees the loop; its events are idle afterwards. Not from inside a callback (-EBUSY). Null is ignored. */
int consort_loop_destroy(struct consort_loop *loop);

/*
 * Dispatches events until consort_loop_stop(), or until nothing is submitted any more; returns 0 then.
 * Returns consort_poll()'s errors. -EBUSY: already running.
 */
int consort_loop_run(struct consort_loop *loop);

/* Makes run return after the current callback; called outside run, it makes the next run return at once. */
int consort_loop_stop(struct consort_loop *loop);

/*
 * For another loop that shall run this one: it calls consort_loop_run_ready() when the descriptor of consort_loop_fd()
 * is readable, and at consort_loop_next_due_ns() (CONSORT_NEVER: no such time) at the latest; both change when events are
 * submitted. consort_loop_run_ready() dispatches what there is to dispatch now, gives way to the other members in between,
 * and returns instead of sleeping. Until it is called again, the thread counts as asleep in a poll: all that it may do
 * meanwhile is to wait, in the loop outside.
 *
 * consort_loop_run_ready() has consort_loop_run()'s errors. -EPERM from consort_loop_fd(): another thread's.
 */
int consort_loop_fd(struct consort_loop *loop);
uint64_t consort_loop_next_due_ns(struct consort_loop *loop);
int consort_loop_run_ready(struct consort_loop *loop);

/*
 * Wakes a loop from other threads: after consort_waker_wake(), which any thread may call at any time and which never
 * waits, the loop calls back once as a best-effort event of that priority, however often it was woken before that.
 * consort_loop_run() goes on until the waker is ended, which the callback may do. *waker is valid until
 * consort_waker_end(), which must be called, at the latest after the loop is destroyed, and when nobody wakes any more.
 *
 * -EINVAL  priority is out of range; callback is null
 * -EPERM   called by another thread than the loop's
 */
struct consort_waker;
typedef void (*consort_wake_callback)(struct consort_loop *loop, void *data);
int consort_waker_new(struct consort_loop *loop, uint32_t priority, consort_wake_callback callback,
		      void *data, struct consort_waker **waker);
void consort_waker_wake(const struct consort_waker *waker);
int consort_waker_end(struct consort_waker *waker);

/* How often a busy loop looks at its file descriptors: at most every interval_ns (500000 unless set). */
int consort_loop_set_fd_interval_ns(struct consort_loop *loop, uint64_t interval_ns);

/* What the other members want right now. */
int consort_loop_others(struct consort_loop *loop, struct consort_others *others);

/* Prepares an idle event. Needs no memory but the event itself, cannot fail. */
void consort_event_init(struct consort_event *event, consort_callback callback, void *data);

/*
 * Submit an event: to run from due_ns on; as a best-effort event; or as a best-effort event from when the file
 * descriptor is ready. No effect (and 0) if it is submitted already: cancel it first to change it.
 *
 * epoll_events is of EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP. Cancel or finish the event before closing the
 * descriptor.
 *
 * -EINVAL  priority or due_ns out of range
 * -EBUSY   the event was submitted to another loop and not finished
 * -EEXIST  another submitted event waits for the same file descriptor
 * -EPERM   called by another thread than the loop's; or the file is always ready, as regular files are
 * -EBADF   fd is not open
 */
int consort_event_submit_due(struct consort_loop *loop, struct consort_event *event,
			     uint64_t due_ns);
int consort_event_submit_best_effort(struct consort_loop *loop, struct consort_event *event,
				     uint32_t priority, uint64_t key);
int consort_event_submit_fd(struct consort_loop *loop, struct consort_event *event, int fd,
			    uint32_t epoll_events, uint32_t priority, uint64_t key);

/* Takes the event back. No effect if it is idle. -EPERM: another thread's. */
int consort_event_cancel(struct consort_event *event);

/* Cancels the event and forgets it: its memory may be reused, or the event submitted to another loop. */
int consort_event_finish(struct consort_event *event);

/* 1 if the event is submitted, else 0. */
int consort_event_is_submitted(const struct consort_event *event);

/* In the callback of a file descriptor's event: the EPOLL* bits that were ready. 0 for other events. */
uint32_t consort_event_ready(const struct consort_event *event);

/*
 * A loop asks for this process' usage now and every period_ns (100 ms to a day), and calls back as a best-effort event of
 * that priority: with error 0 and the figures, which are valid until it returns; or with a negative errno and null, and
 * consort_last_error_text() says why there are none. consort_loop_run() goes on until the watch is ended, which the
 * callback may do. *watch is valid until consort_usage_watch_end(), which must be called, at the latest after the loop is
 * destroyed.
 *
 * -EINVAL  period_ns or priority are out of range; callback is null
 * -EPERM   called by another thread than the loop's
 */
struct consort_usage_watch;
typedef void (*consort_usage_callback)(struct consort_loop *loop, int error,
				       const struct consort_usage *usage, void *data);
int consort_loop_watch_usage(struct consort_loop *loop, uint64_t period_ns, uint32_t priority,
			     consort_usage_callback callback, void *data,
			     struct consort_usage_watch **watch);
int consort_usage_watch_end(struct consort_usage_watch *watch);

#ifdef __cplusplus
}
#endif

#endif
