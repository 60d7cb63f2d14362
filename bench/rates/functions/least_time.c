/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The rule of the built-in function `fair`, where weights are equal: who has had the least CPU time goes first. */
#include <consort_df.h>

unsigned long long df_key(struct df_group *g, unsigned int i)
{
	return g->member[i].ran_ns;
}
