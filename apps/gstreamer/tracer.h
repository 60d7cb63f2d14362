/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tracer `consort`: GStreamer calls it where threads begin and end, and where buffers move. */
#ifndef GSTREAMER_TRACER_H
#define GSTREAMER_TRACER_H

#include <gst/gst.h>

gboolean tracer_register(GstPlugin *plugin);

#endif
