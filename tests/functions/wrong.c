/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Picks who is not there, and writes wherever it can. */
#include <consort_df.h>

long df_pick(struct df_group *g)
{
	for (unsigned int k = 0; k < 256; k++)
		((long long *)g)[k] = -1;
	return 77;
}
