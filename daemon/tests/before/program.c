/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* All that a program can ask for with libconsort, in the words that every version has. tests/library-before builds it. */

#include <consort.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(const char *what, int result)
{
	if (result == 0)
		return 0;
	fprintf(stderr, "%s: %d: %s\n", what, result, consort_last_error_text());
	return 1;
}

static int ask_for_all(pid_t other)
{
	struct consort_member *member;
	struct consort_usage usage;

	return failed("join", consort_join("video", NULL, &member)) ||
	       failed("leave", consort_leave(member)) ||
	       failed("reserve", consort_reserve("guaranteed", 0.2, 30000000)) ||
	       failed("usage", consort_usage(&usage)) || failed("lend", consort_lend(other, 0.1)) ||
	       failed("recollect", consort_recollect(other, 0)) ||
	       failed("release", consort_release());
}

int main(void)
{
	pid_t other = fork();
	int is_failed;

	if (other < 0) {
		perror("fork");
		return 1;
	}
	if (other == 0) {
		pause();
		return 0;
	}
	is_failed = ask_for_all(other);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	if (!is_failed)
		puts("all was granted");
	return is_failed;
}
