/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "output.h"

static bool prepare(struct output *output, const AVFrame *frame, uint64_t step_ns)
{
	(void)output;
	(void)frame;
	(void)step_ns;
	return true;
}

static void show(struct output *output)
{
	(void)output;
}

static int fd(const struct output *output)
{
	(void)output;
	return -1;
}

static bool input(struct output *output)
{
	(void)output;
	return true;
}

struct output *output_open_none(void)
{
	static struct output none = {
		.prepare = prepare, .show = show, .fd = fd, .input = input, .close = show};

	return &none;
}
