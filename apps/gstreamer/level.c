/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "level.h"

/* By this property `queue` and `queue2` say how many buffers they have. */
#define PROPERTY "current-level-buffers"

struct level {
	/* Held while the number is read and published, so that an old one never follows a new one. */
	GMutex mutex;
	struct consort_shared_state *shared; /* NULL: nobody has claimed it */
};

static G_DEFINE_QUARK(consort_level, level)

	static void level_free(gpointer data)
{
	struct level *level = data;

	g_mutex_clear(&level->mutex);
	g_free(level);
}

void level_add(GstElement *element)
{
	GParamSpec *found = g_object_class_find_property(G_OBJECT_GET_CLASS(element), PROPERTY);
	struct level *level;

	if (!found || found->value_type != G_TYPE_UINT)
		return;
	level = g_new0(struct level, 1);
	g_mutex_init(&level->mutex);
	g_object_set_qdata_full(G_OBJECT(element), level_quark(), level, level_free);
}

struct level *level_of(GstElement *element)
{
	return g_object_get_qdata(G_OBJECT(element), level_quark());
}

gboolean level_claim(struct level *level, struct consort_member *member, guint variable)
{
	gboolean is_claimed = FALSE;

	g_mutex_lock(&level->mutex);
	if (!level->shared)
		is_claimed = consort_share_state(member, variable, &level->shared) == 0;
	g_mutex_unlock(&level->mutex);
	return is_claimed;
}

void level_release(struct level *level)
{
	g_mutex_lock(&level->mutex);
	consort_shared_state_end(level->shared);
	level->shared = NULL;
	g_mutex_unlock(&level->mutex);
}

void level_tell(struct level *level, GstElement *element)
{
	guint buffers = 0;

	g_mutex_lock(&level->mutex);
	if (level->shared) {
		g_object_get(element, PROPERTY, &buffers, NULL);
		consort_shared_state_set(level->shared, buffers);
	}
	g_mutex_unlock(&level->mutex);
}
