/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tracer.h"

#include "level.h"
#include "stage.h"

typedef GstTracer ConsortTracer;
typedef GstTracerClass ConsortTracerClass;
G_DEFINE_TYPE(ConsortTracer, consort_tracer, GST_TYPE_TRACER)

static void element_new(GObject *self, GstClockTime at, GstElement *element)
{
	(void)self, (void)at;
	level_add(element);
}

/* A thread says itself, by a message, that it begins or ends to run an element's loop. */
static void message(GObject *self, GstClockTime at, GstElement *element, GstMessage *message)
{
	GstStreamStatusType type;
	GstElement *owner;

	(void)self, (void)at;
	if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_STREAM_STATUS)
		return;
	gst_message_parse_stream_status(message, &type, &owner);
	/* Each bin that the element is in posts the message again. */
	if (element != owner)
		return;
	if (type == GST_STREAM_STATUS_TYPE_ENTER)
		stage_enter(owner);
	else if (type == GST_STREAM_STATUS_TYPE_LEAVE)
		stage_leave();
}

/* A queue that pushes something has it no more. */
static void before_push(GstPad *pad)
{
	GstElement *from = gst_pad_get_parent_element(pad);
	struct level *level = from ? level_of(from) : NULL;

	if (level)
		level_tell(level, from);
	gst_clear_object(&from);
}

/* The element that a pad's buffers go to, the caller's; NULL: none, or the next one is a pad only. */
static GstElement *receiver(GstPad *pad)
{
	GstPad *peer = gst_pad_get_peer(pad);
	GstElement *element = peer ? gst_pad_get_parent_element(peer) : NULL;

	gst_clear_object(&peer);
	return element;
}

static void after_push(GstPad *pad)
{
	GstElement *from = gst_pad_get_parent_element(pad);
	GstElement *to = receiver(pad);

	if (to)
		stage_filled(to);
	if (from)
		stage_pushed(from);
	gst_clear_object(&from);
	gst_clear_object(&to);
}

static void push_pre(GObject *self, GstClockTime at, GstPad *pad, gpointer buffers)
{
	(void)self, (void)at, (void)buffers;
	before_push(pad);
}

static void push_post(GObject *self, GstClockTime at, GstPad *pad, GstFlowReturn result)
{
	(void)self, (void)at, (void)result;
	after_push(pad);
}

/* A flush empties queues that nothing is put into. */
static void event_post(GObject *self, GstClockTime at, GstPad *pad, gboolean result)
{
	GstElement *to = receiver(pad);
	struct level *level = to ? level_of(to) : NULL;

	(void)self, (void)at, (void)result;
	if (level)
		level_tell(level, to);
	gst_clear_object(&to);
}

static void consort_tracer_class_init(ConsortTracerClass *class)
{
	(void)class;
}

static void consort_tracer_init(ConsortTracer *tracer)
{
	gst_tracing_register_hook(tracer, "element-new", G_CALLBACK(element_new));
	gst_tracing_register_hook(tracer, "element-post-message-pre", G_CALLBACK(message));
	gst_tracing_register_hook(tracer, "pad-push-pre", G_CALLBACK(push_pre));
	gst_tracing_register_hook(tracer, "pad-push-post", G_CALLBACK(push_post));
	gst_tracing_register_hook(tracer, "pad-push-list-pre", G_CALLBACK(push_pre));
	gst_tracing_register_hook(tracer, "pad-push-list-post", G_CALLBACK(push_post));
	gst_tracing_register_hook(tracer, "pad-push-event-post", G_CALLBACK(event_post));
}

gboolean tracer_register(GstPlugin *plugin)
{
	return gst_tracer_register(plugin, "consort", consort_tracer_get_type());
}
