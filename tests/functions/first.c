/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The order of the file. */
#include <consort_df.h>

unsigned long long df_key(struct df_group *g, unsigned int i)
{
	return i;
}
