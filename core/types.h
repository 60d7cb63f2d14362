/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the policy needs from its host, and nothing else.
 *
 * A host may define, before it includes core headers:
 *   __arena   qualifies pointers to scheduler state (BPF: address space 1; elsewhere: nothing)
 *   core_fn, in_arena  how a function is compiled once, see below
 *   can_loop  true while a loop may go on (BPF: the verifier's may_goto; elsewhere: always)
 *   role_tells  notes what becomes of a role's interval, see function.h (elsewhere: nothing)
 */
#ifndef CORE_TYPES_H
#define CORE_TYPES_H

typedef unsigned long long u64;
typedef signed long long s64;
typedef unsigned int u32;
typedef signed int s32;
typedef unsigned char u8;

#ifndef __arena
#define __arena
#endif

#ifndef can_loop
#define can_loop 1
#endif

/*
 * A function that is compiled, and by the BPF verifier checked, once and not at each call; its arena pointers
 * are marked as such. It returns an int, 0 where nothing is to be said: the verifier of Linux 6.18 wants that.
 */
#ifndef core_fn
#define core_fn static inline int
#define in_arena
#endif

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifndef NULL
#define NULL ((void *)0)
#endif

#ifndef outer_of
#define outer_of(ptr, type, member) \
	((type __arena *)((char __arena *)(ptr) - __builtin_offsetof(type, member)))
#endif

/* No such time. */
#define NEVER_NS (~0ULL)

#endif
