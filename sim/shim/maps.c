/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BPF maps. A map's variable holds, in its first field, what the map contains; its type says how large that is. All
 * of a run's maps are in one list, to be freed at its end.
 */
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf_helpers.h>
#include "shim.h"

struct sim_map {
	struct sim_map_shape shape;
	struct sim_map *next;
	u32 nr_used; /* hash: slots tried so far */
	u8 *used; /* hash: which of them hold an entry */
	u8 *keys;
	u8 *values;
};

static struct sim_map *all_maps;

#define TASK_STORAGES_MAX (1 << 16)

static struct sim_map *map_of(void *map, struct sim_map_shape shape)
{
	struct sim_map **at = map, *m = *at;

	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	m->shape = shape;
	m->values = calloc(shape.entries, shape.value_bytes);
	if (shape.type == BPF_MAP_TYPE_HASH) {
		m->keys = calloc(shape.entries, shape.key_bytes);
		m->used = calloc(shape.entries, 1);
	}
	m->next = all_maps;
	all_maps = m;
	return *at = m;
}

void sim_maps_free(void)
{
	while (all_maps) {
		struct sim_map *m = all_maps;

		all_maps = m->next;
		free(m->keys);
		free(m->used);
		free(m->values);
		free(m);
	}
}

/* Maps hold few entries in simulated machines: a search from the front is fast enough, and simple. */
static s64 hash_find(struct sim_map *m, const void *key)
{
	for (u32 i = 0; i < m->nr_used; i++)
		if (m->used[i] && !memcmp(m->keys + i * m->shape.key_bytes, key, m->shape.key_bytes))
			return i;
	return -1;
}

static void *value_at(struct sim_map *m, u64 i)
{
	return m->values + i * m->shape.value_bytes;
}

void *sim_map_lookup(void *map, struct sim_map_shape shape, const void *key)
{
	struct sim_map *m = map_of(map, shape);
	u32 index;
	s64 i;

	if (m->shape.type == BPF_MAP_TYPE_HASH) {
		i = hash_find(m, key);
		return i < 0 ? NULL : value_at(m, i);
	}
	index = *(const u32 *)key;
	if (index >= m->shape.entries)
		return NULL;
	if (m->shape.type == BPF_MAP_TYPE_ARRAY_OF_MAPS && !*(void **)value_at(m, index))
		return NULL;
	return value_at(m, index);
}

static s64 hash_add(struct sim_map *m, const void *key)
{
	u32 i = 0;

	if (sim_host->update_fails())
		return -1;
	while (i < m->nr_used && m->used[i])
		i++;
	if (i == m->shape.entries)
		return -1;
	if (i == m->nr_used)
		m->nr_used++;
	m->used[i] = 1;
	memcpy(m->keys + i * m->shape.key_bytes, key, m->shape.key_bytes);
	return i;
}

long sim_map_update(void *map, struct sim_map_shape shape, const void *key, const void *value,
		    u64 flags)
{
	struct sim_map *m = map_of(map, shape);
	s64 i;

	if (m->shape.type != BPF_MAP_TYPE_HASH) {
		void *to = sim_map_lookup(map, shape, key);

		if (!to)
			return -7; /* E2BIG */
		memcpy(to, value, m->shape.value_bytes);
		return 0;
	}
	i = hash_find(m, key);
	if (i >= 0 && flags == BPF_NOEXIST)
		return -17; /* EEXIST */
	if (i < 0)
		i = hash_add(m, key);
	if (i < 0)
		return -12; /* ENOMEM */
	memcpy(value_at(m, i), value, m->shape.value_bytes);
	return 0;
}

long sim_map_delete(void *map, struct sim_map_shape shape, const void *key)
{
	struct sim_map *m = map_of(map, shape);
	s64 i = m->shape.type == BPF_MAP_TYPE_HASH ? hash_find(m, key) : -1;

	if (i < 0)
		return -2; /* ENOENT */
	m->used[i] = 0;
	sim_timers_end(value_at(m, i));
	return 0;
}

/* A hash by the task's address, which no other one of the run gets. Values begin as zeros. */
void *sim_task_storage_get(void *map, u32 value_bytes, const struct task_struct *p, u64 flags)
{
	struct sim_map_shape shape = { BPF_MAP_TYPE_HASH, TASK_STORAGES_MAX, sizeof(p),
				       value_bytes };
	struct sim_map *m = map_of(map, shape);
	s64 i = hash_find(m, &p);

	if (i < 0 && flags & BPF_LOCAL_STORAGE_GET_F_CREATE) {
		i = hash_add(m, &p);
		if (i >= 0)
			memset(value_at(m, i), 0, value_bytes);
	}
	return i < 0 ? NULL : value_at(m, i);
}

u32 sim_map_count(void *map)
{
	struct sim_map *m = *(struct sim_map **)map;
	u32 count = 0;

	for (u32 i = 0; m && i < m->nr_used; i++)
		count += m->used[i];
	return count;
}

u32 sim_map_slots(void *map)
{
	struct sim_map *m = *(struct sim_map **)map;

	return m ? m->nr_used : 0;
}

void *sim_map_slot(void *map, u32 slot)
{
	struct sim_map *m = *(struct sim_map **)map;

	return m->used[slot] ? value_at(m, slot) : NULL;
}

const void *sim_map_slot_key(void *map, u32 slot)
{
	struct sim_map *m = *(struct sim_map **)map;

	return m->keys + slot * m->shape.key_bytes;
}

/* An inner map is reached through the outer map's slot, whose first word is what a map's variable begins with. */
void sim_map_set_inner(void *outer, struct sim_map_shape shape, u32 index, void *value,
		       u32 value_bytes)
{
	struct sim_map *m = map_of(outer, shape), *inner, **slot = value_at(m, index);

	if (!value) {
		*slot = NULL;
		return;
	}
	inner = calloc(1, sizeof(*inner));
	inner->shape = (struct sim_map_shape){ BPF_MAP_TYPE_ARRAY, 1, sizeof(u32), value_bytes };
	inner->values = value;
	*slot = inner;
}

/* Copies the key of the entry that a value is in. */
void sim_map_key_of(void *map, struct sim_map_shape shape, const void *value, void *key)
{
	struct sim_map *m = map_of(map, shape);
	u32 i = ((const u8 *)value - m->values) / m->shape.value_bytes;

	if (m->keys)
		memcpy(key, m->keys + i * m->shape.key_bytes, m->shape.key_bytes);
	else
		memcpy(key, &i, sizeof(i));
}
