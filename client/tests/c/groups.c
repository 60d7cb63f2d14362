/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses the accessors that `consort accessors` makes of tests/groups/film.toml. */
#include "film_groups.h"

#include <err.h>
#include <stdio.h>

int main(void)
{
	struct consort_shared_state *shared;
	struct consort_member *member;

	if (film_read_announce(&member) < 0)
		errx(1, "%s", consort_last_error_text());
	if (film_read_set_queued(member, 7) < 0 || film_read_set_busy(member, false) < 0 ||
	    film_read_set_ahead_ns(member, 9000000) < 0)
		errx(1, "%s", consort_last_error_text());
	if (film_read_get_begins(member) != 0)
		errx(1, "nobody has said when it begins");
	if (consort_set_state(member, CONSORT_VARIABLES, 0) != -22 ||
	    consort_get_control(member, 0, NULL) != -22 || consort_announce(NULL, &member) != -22 ||
	    consort_announce("a.b", &member) != -22 || consort_announce("", &member) != -22 ||
	    consort_announce("again", &member) != -17 || consort_set_state(NULL, 0, 0) != -22)
		errx(1, "what is wrong is not refused");
	if (consort_begin_submission(member) || consort_end_submission(member) ||
	    consort_done(member) || consort_trigger_plans(member) || consort_look(member))
		errx(1, "%s", consort_last_error_text());
	if (consort_share_state(member, 0, &shared) || !consort_share_state(member, 9, &shared) ||
	    !consort_share_state(member, 0, NULL))
		errx(1, "%s", consort_last_error_text());
	consort_shared_state_set(shared, 11);
	consort_shared_state_end(shared);
	consort_shared_state_set(NULL, 12);
	consort_shared_state_end(NULL);
	puts("told");
	return -consort_leave(member);
}
