/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "player.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include <libavutil/imgutils.h>

#include "adapt.h"

/* Decoded frames that wait for their due time: one second at 24 frames/s. */
#define QUEUE_FRAMES 24
/* Input from the window comes after everything that has to be on time. */
#define INPUT_PRIORITY 100

/* Frames that libavcodec keeps for reference (16 at most in H.264), in the queue, and in the making. */
#define FRAMES_ALIVE (16 + QUEUE_FRAMES + 2)
/* libavcodec decodes into frames that are somewhat larger and whose lines are aligned. */
#define EDGE_PIXELS 64
#define FRAME_ALIGNMENT_BYTES 64
#define PAGE_BYTES 4096

struct slot {
	AVFrame *frame;
	int64_t number;
};

/* What a best-effort event is to do next. */
struct work {
	enum {
		WORK_NONE, /* until the next frame is due */
		WORK_PREPARE, /* convert the next frame for the screen */
		WORK_BEGIN, /* decode the clip's next picture */
		WORK_GO_ON, /* with the picture that was begun */
	} kind;
	uint32_t priority;
	uint64_t key;
};

struct player {
	struct player_config config;
	struct clip *clip;
	struct decoder *decoder;
	struct output *output;
	struct adapt adapt;
	struct consort_event tick, work, input;
	struct work submitted; /* what the work event was submitted for */
	AVRational frames_per_s;
	uint64_t period_ns;
	int64_t next; /* the frame that is due next */
	int64_t prepared; /* the frame that the output is ready to show */
	int64_t begun_frame; /* in the decoder */
	enum importance begun_importance;
	uint64_t begun_ns; /* time spent on it */
	struct slot queue[QUEUE_FRAMES];
	struct player_counts counts;
};

static uint64_t due_ns_of(const struct player *p, int64_t frame)
{
	int64_t offset_ns =
		av_rescale_q(frame, av_inv_q(p->frames_per_s), (AVRational){1, 1000000000});
	int64_t due_ns = (int64_t)p->config.origin_ns + offset_ns;

	return due_ns > 0 ? (uint64_t)due_ns : 0;
}

static struct slot *slot_of(struct player *p, int64_t frame)
{
	return &p->queue[(uint64_t)frame % QUEUE_FRAMES];
}

/* The decoded frame of that number; NULL if there is none. */
static AVFrame *decoded_frame(struct player *p, int64_t frame)
{
	struct slot *slot = slot_of(p, frame);

	return slot->frame && slot->number == frame ? slot->frame : NULL;
}

static void store_frame(struct player *p, int64_t number, AVFrame *frame)
{
	struct slot *slot = slot_of(p, number);

	if (frame && number < p->next) {
		p->counts.wasted += p->begun_importance == IMPORTANCE_LEAF;
		av_frame_free(&frame);
	}
	if (!frame)
		return;
	av_frame_free(&slot->frame);
	*slot = (struct slot){.frame = frame, .number = number};
}

/* The clip's next picture that is worth decoding; leaves out those that are not. */
static const struct picture *choose_picture(struct player *p, uint64_t now_ns)
{
	const struct picture *picture;

	while ((picture = clip_head(p->clip))) {
		const struct picture *next_key = clip_next_key(p->clip);
		struct adapt_times times = {
			.now_ns = now_ns,
			.due_ns = due_ns_of(p, picture->frame),
			.next_key_due_ns = next_key ? due_ns_of(p, next_key->frame) : CONSORT_NEVER,
		};

		if (picture->frame >= p->next + QUEUE_FRAMES)
			return NULL;
		if (adapt_wants(&p->adapt, picture, &times))
			return picture;
		adapt_left_out(&p->adapt, picture);
		p->counts.left_out[picture->importance] += picture->frame >= 0;
		clip_drop_head(p->clip);
	}
	return NULL;
}

static struct work choose_work(struct player *p, uint64_t now_ns)
{
	const struct picture *picture;

	if (decoder_state(p->decoder) == DECODER_BUSY)
		return (struct work){WORK_GO_ON, adapt_priority_begun(),
				     adapt_key(&p->adapt, due_ns_of(p, p->begun_frame))};
	if (p->prepared != p->next && decoded_frame(p, p->next))
		return (struct work){WORK_PREPARE, adapt_priority_begun(),
				     adapt_key(&p->adapt, due_ns_of(p, p->next))};
	picture = choose_picture(p, now_ns);
	if (!picture)
		return (struct work){.kind = WORK_NONE};
	return (struct work){WORK_BEGIN, adapt_priority(picture),
			     adapt_key(&p->adapt, due_ns_of(p, picture->frame))};
}

/* Submits an event for the work that there is now. */
static void submit_work(struct player *p, uint64_t now_ns)
{
	consort_event_cancel(&p->work);
	p->submitted = choose_work(p, now_ns);
	if (p->submitted.kind != WORK_NONE)
		consort_event_submit_best_effort(p->config.loop, &p->work, p->submitted.priority,
						 p->submitted.key);
}

static void begin_picture(struct player *p)
{
	const struct picture *picture = clip_head(p->clip);

	adapt_begins(&p->adapt, picture);
	p->begun_frame = picture->frame;
	p->begun_importance = picture->importance;
	p->begun_ns = 0;
	decoder_begin(p->decoder, picture->packet);
	clip_drop_head(p->clip);
}

/* One step of decoding, which started at now_ns. Returns the time when it ended. */
static uint64_t decode_step(struct player *p, uint64_t now_ns)
{
	enum decoder_state state = decoder_step(p->decoder);
	uint64_t ended_ns = consort_now_ns();

	p->begun_ns += ended_ns - now_ns;
	if (state == DECODER_DONE) {
		adapt_decoded(&p->adapt, p->begun_importance, p->begun_ns);
		p->counts.decoded[p->begun_importance]++;
		store_frame(p, p->begun_frame, decoder_take(p->decoder));
	}
	return ended_ns;
}

static uint64_t do_work(struct player *p, const struct work *work, uint64_t now_ns)
{
	switch (work->kind) {
	case WORK_NONE:
		return now_ns;
	case WORK_PREPARE:
		if (p->output->prepare(p->output, decoded_frame(p, p->next), p->config.step_ns))
			p->prepared = p->next;
		return consort_now_ns();
	case WORK_BEGIN:
		begin_picture(p);
		break;
	case WORK_GO_ON:
		break;
	}
	return decode_step(p, now_ns);
}

static void on_work(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct player *p = data;
	uint64_t started_ns = consort_now_ns(), ended_ns = started_ns;
	struct work work = choose_work(p, started_ns);

	(void)loop;
	(void)event;
	/* Time has passed since the event was submitted. If what is left is less important than what it was
	 * submitted for, others may come first now. */
	if (work.priority <= p->submitted.priority)
		ended_ns = do_work(p, &work, started_ns);
	p->counts.work_ns += ended_ns - started_ns;
	if (ended_ns - started_ns > p->counts.event_ns_max)
		p->counts.event_ns_max = ended_ns - started_ns;
	submit_work(p, ended_ns);
}

static void end(struct player *p)
{
	consort_event_cancel(&p->tick);
	consort_event_cancel(&p->work);
	consort_event_cancel(&p->input);
	p->config.ended(p->config.data);
}

static void submit_tick(struct player *p)
{
	uint64_t due_ns = due_ns_of(p, p->next);

	if (p->next >= clip_end_frame(p->clip) || due_ns >= p->config.end_ns)
		end(p);
	else
		consort_event_submit_due(p->config.loop, &p->tick, due_ns);
}

static void on_tick(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct player *p = data;
	struct slot *slot = slot_of(p, p->next);
	struct journal_frame record = {
		.due_ns = due_ns_of(p, p->next),
		.dispatch_ns = consort_now_ns(),
		.frame = p->next,
		.player = p->config.number,
	};

	(void)loop;
	(void)event;
	/* A frame that is late by its whole time on the screen gives way to the next. */
	record.shown = p->prepared == p->next && record.dispatch_ns < record.due_ns + p->period_ns;
	if (record.shown)
		p->output->show(p->output);
	journal_add(p->config.journal, &record);
	adapt_frame_due(&p->adapt, record.shown, p->period_ns);
	if (slot->frame && slot->number <= p->next)
		av_frame_free(&slot->frame);
	p->next++;
	submit_work(p, record.dispatch_ns);
	submit_tick(p);
}

static int submit_input(struct player *p)
{
	int fd = p->output->fd(p->output);

	if (fd < 0)
		return 0;
	return consort_event_submit_fd(p->config.loop, &p->input, fd, EPOLLIN, INPUT_PRIORITY, 0);
}

static void on_input(struct consort_loop *loop, struct consort_event *event, void *data)
{
	struct player *p = data;

	(void)loop;
	(void)event;
	if (p->output->input(p->output))
		submit_input(p);
	else
		end(p);
}

void player_touch_memory(const struct clip *clip)
{
	const AVCodecParameters *video = clip_parameters(clip);
	int frame_bytes =
		av_image_get_buffer_size(AV_PIX_FMT_YUV420P, video->width + EDGE_PIXELS,
					 video->height + EDGE_PIXELS, FRAME_ALIGNMENT_BYTES);
	size_t bytes = (size_t)(frame_bytes > 0 ? frame_bytes : 0) * FRAMES_ALIVE;
	volatile char *memory = malloc(bytes);

	for (size_t at = 0; memory && at < bytes; at += PAGE_BYTES)
		memory[at] = 0;
	free((void *)memory);
}

struct player *player_create(const struct player_config *config, const struct player_parts *parts)
{
	struct player *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->config = *config;
	p->clip = parts->clip;
	p->decoder = parts->decoder;
	p->output = parts->output;
	p->frames_per_s = clip_frames_per_s(p->clip);
	p->period_ns = (uint64_t)(1e9 / av_q2d(p->frames_per_s));
	p->prepared = -1;
	adapt_init(&p->adapt);
	consort_event_init(&p->tick, on_tick, p);
	consort_event_init(&p->work, on_work, p);
	consort_event_init(&p->input, on_input, p);
	submit_work(p, consort_now_ns());
	if (submit_input(p) || consort_event_submit_due(config->loop, &p->tick, due_ns_of(p, 0))) {
		player_destroy(p);
		return NULL;
	}
	return p;
}

void player_destroy(struct player *p)
{
	if (!p)
		return;
	consort_event_finish(&p->tick);
	consort_event_finish(&p->work);
	consort_event_finish(&p->input);
	for (unsigned i = 0; i < QUEUE_FRAMES; i++)
		av_frame_free(&p->queue[i].frame);
	free(p);
}

struct player_counts player_counts(const struct player *p)
{
	struct player_counts counts = p->counts;

	counts.damaged = clip_damaged(p->clip);
	counts.part_ns_max = decoder_part_ns_max(p->decoder);
	return counts;
}
