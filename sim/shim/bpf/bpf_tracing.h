/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* libbpf's header of this name, for the host: callbacks are called with their arguments. */
#ifndef SIM_BPF_TRACING_H
#define SIM_BPF_TRACING_H

#define BPF_PROG(name, args...) name(args)

/* A callback's arguments as a whole: handed on, and not looked at. */
static unsigned long long *const ctx;

#endif
