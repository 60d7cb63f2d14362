/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* libbpf's header of this name, for the host: there is one kernel, the model's. */
#ifndef SIM_BPF_CORE_READ_H
#define SIM_BPF_CORE_READ_H

#define bpf_core_enum_value(type, value) (value)
#define bpf_core_field_exists(field) ((void)(field), true)
#define bpf_core_field_offset(type, field) offsetof(type, field)

/* As where a read fails: what is behind NULL is 0. */
#define SIM_ARROW_1(s, a)                                            \
	({                                                           \
		__typeof__(s) sim_from = (s);                        \
		sim_from ? sim_from->a : (__typeof__(sim_from->a))0; \
	})
#define SIM_ARROW_2(s, a, b) SIM_ARROW_1(SIM_ARROW_1(s, a), b)
#define SIM_ARROW_3(s, a, b, c) SIM_ARROW_1(SIM_ARROW_2(s, a, b), c)
#define SIM_ARROW_4(s, a, b, c, d) SIM_ARROW_1(SIM_ARROW_3(s, a, b, c), d)
#define SIM_ARROW_OF(_1, _2, _3, _4, name, ...) name
#define BPF_CORE_READ(s, ...)                                                                 \
	SIM_ARROW_OF(__VA_ARGS__, SIM_ARROW_4, SIM_ARROW_3, SIM_ARROW_2, SIM_ARROW_1, unused) \
	(s, __VA_ARGS__)

#endif
