/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "groups.h"

#include <stdio.h>

void groups_member_name(const struct options *o, const char *stage, char name[MEMBER_NAME_BYTES])
{
	snprintf(name, MEMBER_NAME_BYTES, "%.*s%s%s", NAME_BYTES_MAX, o->name ? o->name : "",
		 o->name ? "-" : "", stage);
}

void groups_print(const struct options *o)
{
	char name[MEMBER_NAME_BYTES], transform[STAGE_NAME_BYTES];

	printf("name = \"pipeline%s%s\"\n"
	       "\n"
	       "# Read, transform, display (consort-pipeline --timing plan).\n"
	       "[group.%s]\n"
	       "function = \"pipeline\"\n"
	       "state = { queued = 0 }\n"
	       "control = { begins = 0, ends = 0, missed = 0 }\n",
	       o->name ? "-" : "", o->name ? o->name : "", o->name ? o->name : "film");
	groups_member_name(o, "read", name);
	printf("high = %u\n"
	       "bootstrap = %u\n"
	       "members = [\n"
	       "    \"%s\",\n",
	       o->queue, o->bootstrap, name);
	for (uint32_t i = 1; i <= o->transforms; i++) {
		snprintf(transform, sizeof(transform), "transform-%u", i);
		groups_member_name(o, transform, name);
		printf("    \"%s\",\n", name);
	}
	groups_member_name(o, "show", name);
	printf("    { name = \"%s\", interval = \"4ms\" },\n", name);
	if (o->output == OUTPUT_X11)
		printf("    # The X server of root's; the file is root's to apply then.\n"
		       "    { name = \"x\", follows = \"%s\", at_most = \"3ms\", rule = { thread = "
		       "\"Xorg\" } },\n",
		       name);
	puts("]");
}
