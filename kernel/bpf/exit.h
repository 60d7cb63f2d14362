/* SPDX-License-Identifier: GPL-2.0 */
/* Why the kernel took a scheduler out, kept for the daemon. */
#ifndef CONSORT_EXIT_H
#define CONSORT_EXIT_H

#include "kernel.h"
#include "interface.h"

static inline void exit_record(struct consort_exit_info *to, const struct scx_exit_info *info)
{
	to->kind = info->kind;
	to->exit_code = info->exit_code;
	bpf_probe_read_kernel_str(to->reason, sizeof(to->reason), info->reason);
	bpf_probe_read_kernel_str(to->msg, sizeof(to->msg), info->msg);
	bpf_probe_read_kernel_str(to->dump, sizeof(to->dump), info->dump);
	__sync_fetch_and_add(&to->state, CONSORT_EXIT_DONE);
}

#endif
