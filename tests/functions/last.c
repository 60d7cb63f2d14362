/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The order of the file, from its end; and how often it was asked is told. */
#include <consort_df.h>

unsigned long long df_key(struct df_group *g, unsigned int i)
{
	g->memory[0]++;
	g->member[i].control[0] = g->memory[0];
	return DF_MEMBERS - i;
}
