/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include <X11/Xlib.h>
#include <X11/Xutil.h>
#include <X11/keysym.h>
#include <X11/extensions/XShm.h>

#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include <consort.h>

/* Lines converted at a time: a multiple of the height of every chroma sample. */
#define BAND_LINES 16
/* One on its way to the screen, one being prepared. */
#define IMAGES 2

struct window {
	struct output output;
	Display *display;
	Window window;
	GC gc;
	Atom close_request;
	struct SwsContext *scaler;
	int width, height;
	XShmSegmentInfo segments[IMAGES];
	XImage *images[IMAGES];
	int back; /* the image that is prepared next */
	int lines_done; /* of the frame that is being prepared */
};

static void convert_band(struct window *w, const AVFrame *frame, int lines)
{
	XImage *image = w->images[w->back];
	uint8_t *to[4] = {(uint8_t *)image->data};
	int to_stride[4] = {image->bytes_per_line};
	const uint8_t *from[4] = {0};
	int chroma_x = 0, chroma_y = 0;

	av_pix_fmt_get_chroma_sub_sample(frame->format, &chroma_x, &chroma_y);
	for (int plane = 0; plane < 4 && frame->data[plane]; plane++) {
		int shift = plane == 1 || plane == 2 ? chroma_y : 0;

		from[plane] = frame->data[plane] +
			      (ptrdiff_t)(w->lines_done >> shift) * frame->linesize[plane];
	}
	sws_scale(w->scaler, from, frame->linesize, w->lines_done, lines, to, to_stride);
}

static bool prepare(struct output *output, const AVFrame *frame, uint64_t step_ns)
{
	struct window *w = (struct window *)output;
	uint64_t end_ns = consort_now_ns() + step_ns;

	if (!w->lines_done)
		w->scaler = sws_getCachedContext(w->scaler, w->width, w->height, frame->format,
						 w->width, w->height, AV_PIX_FMT_BGR0, SWS_POINT,
						 NULL, NULL, NULL);
	/* A picture of another size than the file's header says is left as it is. */
	while (w->scaler && frame->width >= w->width && frame->height >= w->height &&
	       w->lines_done < w->height) {
		int left = w->height - w->lines_done;
		int lines = left < BAND_LINES ? left : BAND_LINES;

		convert_band(w, frame, lines);
		w->lines_done += lines;
		if (w->lines_done < w->height && consort_now_ns() >= end_ns)
			return false;
	}
	w->lines_done = 0;
	return true;
}

static void show(struct output *output)
{
	struct window *w = (struct window *)output;

	XShmPutImage(w->display, w->window, w->gc, w->images[w->back], 0, 0, 0, 0,
		     (unsigned)w->width, (unsigned)w->height, False);
	XFlush(w->display);
	w->back = (w->back + 1) % IMAGES;
}

static int fd(const struct output *output)
{
	return ConnectionNumber(((const struct window *)output)->display);
}

static bool input(struct output *output)
{
	struct window *w = (struct window *)output;
	XEvent event;

	while (XPending(w->display)) {
		XNextEvent(w->display, &event);
		if (event.type == ClientMessage &&
		    (Atom)event.xclient.data.l[0] == w->close_request)
			return false;
		if (event.type == KeyPress && XLookupKeysym(&event.xkey, 0) == XK_q)
			return false;
	}
	return true;
}

static void close_window(struct output *output)
{
	struct window *w = (struct window *)output;

	for (int i = 0; i < IMAGES; i++) {
		if (!w->images[i])
			continue;
		XShmDetach(w->display, &w->segments[i]);
		XDestroyImage(w->images[i]);
		shmdt(w->segments[i].shmaddr);
	}
	sws_freeContext(w->scaler);
	if (w->display)
		XCloseDisplay(w->display);
	free(w);
}

/* Shared memory only: sending pixels through the connection would block when the server is busy. */
static bool create_image(struct window *w, int i)
{
	XShmSegmentInfo *segment = &w->segments[i];
	int screen = DefaultScreen(w->display);
	XImage *image = XShmCreateImage(w->display, DefaultVisual(w->display, screen),
					(unsigned)DefaultDepth(w->display, screen), ZPixmap, NULL,
					segment, (unsigned)w->width, (unsigned)w->height);

	if (!image)
		return false;
	if (image->bits_per_pixel != 32 || image->red_mask != 0xff0000) {
		XDestroyImage(image);
		return false;
	}
	segment->shmid = shmget(IPC_PRIVATE, (size_t)image->bytes_per_line * (size_t)image->height,
				IPC_CREAT | 0600);
	segment->shmaddr = shmat(segment->shmid, NULL, 0);
	if (segment->shmaddr == (void *)-1) {
		XDestroyImage(image);
		return false;
	}
	image->data = segment->shmaddr;
	XShmAttach(w->display, segment);
	XSync(w->display, False);
	/* Gone when both sides have detached, however they end. */
	shmctl(segment->shmid, IPC_RMID, NULL);
	w->images[i] = image;
	return true;
}

static void create_window(struct window *w, const char *title)
{
	w->window = XCreateSimpleWindow(w->display, DefaultRootWindow(w->display), 0, 0,
					(unsigned)w->width, (unsigned)w->height, 0, 0, 0);
	w->gc = XCreateGC(w->display, w->window, 0, NULL);
	w->close_request = XInternAtom(w->display, "WM_DELETE_WINDOW", False);
	XSetWMProtocols(w->display, w->window, &w->close_request, 1);
	XStoreName(w->display, w->window, title);
	XSelectInput(w->display, w->window, KeyPressMask);
	XMapWindow(w->display, w->window);
	XFlush(w->display);
}

static struct output *fail(struct window *w, char *error, size_t error_bytes, const char *what)
{
	snprintf(error, error_bytes, "%s", what);
	if (w)
		close_window(&w->output);
	return NULL;
}

struct output *output_open_x11(int width, int height, const char *title, char *error,
			       size_t error_bytes)
{
	struct window *w = calloc(1, sizeof(*w));

	if (!w)
		return fail(w, error, error_bytes, "out of memory");
	w->output = (struct output){
		.prepare = prepare, .show = show, .fd = fd, .input = input, .close = close_window};
	w->width = width;
	w->height = height;
	w->display = XOpenDisplay(NULL);
	if (!w->display)
		return fail(w, error, error_bytes,
			    "no X display answers; set DISPLAY, or give --output none");
	if (!XShmQueryExtension(w->display))
		return fail(w, error, error_bytes,
			    "the display is on another machine; give --output none");
	for (int i = 0; i < IMAGES; i++)
		if (!create_image(w, i))
			return fail(w, error, error_bytes,
				    "the display has no 24-bit colours in shared memory");
	create_window(w, title);
	return &w->output;
}
