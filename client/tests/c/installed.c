/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses an installed copy, as C and as C++. */
#include <consort.h>

int main(void)
{
	struct consort_member *member;
	struct consort_others others;
	struct consort_next next = CONSORT_NEXT_DUE(consort_now_ns());

	if (consort_join("studio", 0, &member) < 0 || consort_poll(member, &next, &others) < 0)
		return 1;
	return consort_leave(member) < 0;
}
