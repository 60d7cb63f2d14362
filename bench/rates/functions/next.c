/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The member goes first whose number follows that of the one that has given the CPU up. */
#include <consort_df.h>

long df_pick(struct df_group *g)
{
	/* After nobody, and after the last one, it is the first one's turn. */
	return g->by + 1 < g->nr ? g->by + 1 : 0;
}
