/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* libbpf's header of this name, for the host: callbacks are called with their arguments. */
#ifndef SIM_BPF_TRACING_H
#define SIM_BPF_TRACING_H

#define BPF_PROG(name, args...) name(args)

#endif
