/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "groups.h"

#include <stdio.h>

void groups_print(const struct options *o)
{
	puts("name = \"pipeline\"\n"
	     "\n"
	     "# Read, transform, display (consort-pipeline --timing plan).\n"
	     "[group.film]\n"
	     "function = \"pipeline\"\n"
	     "state = { queued = 0 }\n"
	     "control = { begins = 0, ends = 0, missed = 0 }");
	printf("high = %u\n"
	       "bootstrap = %u\n"
	       "members = [\n"
	       "    \"read\",\n",
	       o->queue, o->bootstrap);
	for (uint32_t i = 1; i <= o->transforms; i++)
		printf("    \"transform-%u\",\n", i);
	puts("    { name = \"show\", interval = \"4ms\" },");
	if (o->output == OUTPUT_X11)
		puts("    # The X server of root's; the file is root's to apply then.\n"
		     "    { name = \"x\", follows = \"show\", at_most = \"3ms\", rule = { thread = "
		     "\"Xorg\" } },");
	puts("]");
}
