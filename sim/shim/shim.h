/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Between the files of the shim. */
#ifndef SIM_SHIM_H
#define SIM_SHIM_H

#include "host.h"

void sim_maps_free(void);
u32 sim_map_count(void *map);
/* A hash map's slots, used or not: a slot's value, NULL if it holds no entry. */
u32 sim_map_slots(void *map);
void *sim_map_slot(void *map, u32 slot);
const void *sim_map_slot_key(void *map, u32 slot);
void sim_map_set_inner(void *outer, struct sim_map_shape shape, u32 index, void *value,
		       u32 value_bytes);
void sim_map_key_of(void *map, struct sim_map_shape shape, const void *value, void *key);

void sim_timers_forget(void);
void sim_timers_end(const void *value);
void sim_timer_fire(u32 number);

#endif
