/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Goes on until somebody else has changed what nobody else can. */
#include <consort_df.h>

long df_pick(struct df_group *g)
{
	while (!g->memory[0])
		g->memory[1]++;
	return 0;
}
