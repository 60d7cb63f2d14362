/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the pipeline is called in group files. */
#ifndef PIPELINE_GROUPS_H
#define PIPELINE_GROUPS_H

#include "options.h"
#include "stage.h"

/* What the member is called whose thread is the stage of that name. */
void groups_member_name(const struct options *options, const char *stage,
			char name[MEMBER_NAME_BYTES]);

/* Prints the group file of a pipeline with these options. */
void groups_print(const struct options *options);

#endif
