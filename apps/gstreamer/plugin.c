/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What GStreamer finds in libgstconsort.so. */
#include "tracer.h"

static gboolean init(GstPlugin *plugin)
{
	return tracer_register(plugin);
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, consort,
		  "Names streaming threads for Consort's group files, and publishes queue levels",
		  init, VERSION, "MIT/X11", PACKAGE, "consort")
