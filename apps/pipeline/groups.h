/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef PIPELINE_GROUPS_H
#define PIPELINE_GROUPS_H

#include "options.h"

/* Prints the group file of a pipeline with these options. */
void groups_print(const struct options *options);

#endif
