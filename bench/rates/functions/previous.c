/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The member goes first whose number precedes that of the one that has given the CPU up. */
#include <consort_df.h>

long df_pick(struct df_group *g)
{
	/* Before the first one, and after nobody, it is the last one's turn. */
	return g->by && g->by < g->nr ? g->by - 1 : g->nr - 1;
}
