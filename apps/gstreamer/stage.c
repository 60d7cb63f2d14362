/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stage.h"

#include <consort.h>

#include "level.h"

struct stage {
	GstElement *element; /* NULL: the thread is no stage; compared, never followed */
	struct consort_member *member;
	/* Whose levels are its state variables. */
	GstElement *queues[CONSORT_VARIABLES];
	guint nr_queues;
};

static _Thread_local struct stage stage;

void stage_enter(GstElement *element)
{
	gchar *name = gst_object_get_name(GST_OBJECT(element));

	/* A thread that never said that it left is one of this library's no more. */
	stage_leave();
	if (consort_announce(name, &stage.member) < 0) {
		g_warning("the thread of %s has no name for group files: %s", name,
			  consort_last_error_text());
	} else {
		stage.element = element;
		if (consort_why_alone(stage.member) < 0)
			g_warning("the thread of %s is on its own: %s", name,
				  consort_last_error_text());
	}
	g_free(name);
}

void stage_leave(void)
{
	if (!stage.element)
		return;
	for (guint i = 0; i < stage.nr_queues; i++) {
		level_release(level_of(stage.queues[i]));
		gst_object_unref(stage.queues[i]);
	}
	consort_leave(stage.member);
	stage = (struct stage){ 0 };
}

static gboolean is_published(GstElement *queue)
{
	for (guint i = 0; i < stage.nr_queues; i++)
		if (stage.queues[i] == queue)
			return TRUE;
	return FALSE;
}

void stage_filled(GstElement *queue)
{
	struct level *level = level_of(queue);

	if (!level)
		return;
	if (stage.element && stage.nr_queues < CONSORT_VARIABLES && !is_published(queue) &&
	    level_claim(level, stage.member, stage.nr_queues))
		stage.queues[stage.nr_queues++] = gst_object_ref(queue);
	level_tell(level, queue);
}

void stage_pushed(GstElement *element)
{
	if (element == stage.element)
		consort_done(stage.member);
}
