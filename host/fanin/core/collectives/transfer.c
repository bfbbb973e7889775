/* Moves data between the program's memory and work requests. The parts of a long message use bounce buffers in turn,
 * which stay in the caches: parts are copied in and out while the device works on others.
 * Record 0013 (docs/decisions) says why in parts, and why one buffer serves both sides. */
#include "collectives/stream.h"
#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SIGNAL_INTERVAL 64 /* work requests: completions must tell when the queue has room */
#define LONG_IN_PLACE (32u << 20) /* bytes: longer data have left the caches before results come */

/* Where a side of a part lies in its bounce buffer: blocks in the order of the ranks, data and result in the same
 * bytes. */
static uint8_t *place_in_buffer(const struct fanin_request *request, uint32_t number, const struct run *run,
                                struct collective_side side)
{
    uint8_t *buffer = request->window[number % request->window_length]->address;

    return side.own ? buffer + request->stream->job_params.rank * run->block : buffer;
}

static void bring_part(const struct fanin_request *request, const struct run *run, uint8_t *buffer)
{
    uint32_t blocks = request->message.row->brings.own ? 1 : run->blocks;
    const uint8_t *memory = request->source.memory + run->offset;

    for (uint32_t block = 0; block < blocks; block++)
        memcpy(buffer + block * run->block, memory + block * request->message.block, run->block);
}

static void use_buffer(const struct fanin_request *request, uint32_t number, const struct run *run,
                       struct fanin_wqe *wqe)
{
    const struct collective_row *row = request->message.row;
    uint32_t lkey = request->window[number % request->window_length]->lkey;

    if (request->source.way == MODE_PIPELINED) {
        uint8_t *source = place_in_buffer(request, number, run, row->brings);
        bring_part(request, run, source);
        wqe->address.source = (uintptr_t)source;
        wqe->source_lkey = lkey;
    }
    if (request->destination.way == MODE_PIPELINED) {
        wqe->address.destination = (uintptr_t)place_in_buffer(request, number, run, row->wants);
        wqe->destination_lkey = lkey;
    }
}

/* Short data go into the work request, unless a fence delays them. */
static void put_inline(const struct fanin_request *request, const struct run *run, struct fanin_wqe *wqe)
{
    const struct side *source = &request->source;
    const void *data = (const void *)(uintptr_t)wqe->address.source;
    uint64_t length = !wqe->address.source_blocks ? 0 : request->message.row->brings.own ? run->own : run->length;

    if (source->way == MODE_PIPELINED || request->flags & FANIN_FENCE || !length || length > FANIN_MAX_INLINE)
        return;
    wqe->flags |= FANIN_WQE_INLINE;
    memcpy((char *)wqe + offsetof(struct fanin_wqe, address.source), data, length);
}

static uint16_t flags_of(const struct fanin_request *request, uint32_t number)
{
    const struct side *destination = &request->destination;
    uint16_t flags = 0;

    if (number + 1 == request->count || (number + 1) % SIGNAL_INTERVAL == 0 || request->window_length)
        flags |= FANIN_WQE_SIGNALED;
    if (request->flags & FANIN_FENCE && number == 0)
        flags |= FANIN_WQE_FENCE;
    if (destination->way == MODE_DIRECT && destination->lkey != FANIN_LKEY_PROCESS &&
        fanin_message_length(&request->message) >= FANIN_LONG_BYTES)
        flags |= FANIN_WQE_LONG;
    return flags;
}

/* Time left for all ranks to take part; the clock starts with the first part. */
static uint32_t deadline_of(struct fanin_request *request, uint32_t number)
{
    uint64_t now;

    if (!request->timeout_ms)
        return 0;
    now = fanin_now_ms();
    if (number == 0)
        request->deadline_ms = now + request->timeout_ms;
    return now < request->deadline_ms ? (uint32_t)(request->deadline_ms - now) : 1;
}

/* The next work request, without memory. That of a message in one part is the same each time. */
static void draft(struct fanin_request *request, struct run *run, struct fanin_wqe *wqe)
{
    const struct job_params *job_params = &request->stream->job_params;

    if (!request->has_draft) {
        fanin_next_run(&request->message, job_params->rank, run);
        fanin_write_request(job_params, &request->message, run, wqe);
        wqe->mid = request->agreement << FANIN_MID_BITS;
        if (request->count > 1 || request->wanted.row)
            return;
        request->draft_run = *run;
        request->draft = *wqe;
        request->has_draft = 1;
    }
    *run = request->draft_run;
    *wqe = request->draft;
}

int fanin_request_load(struct fanin_request *request, struct run *run, struct fanin_wqe *wqe)
{
    uint32_t number = request->posted;

    if (request->window_length && number - request->taken == request->window_length)
        return 0;
    if (request->source.way == MODE_BOUNCED && number == 0)
        memcpy(request->source.buffer->address, request->source.memory, request->source.length);
    draft(request, run, wqe);
    wqe->address.source += request->source.address;
    wqe->address.destination += request->destination.address;
    wqe->source_lkey = request->source.lkey;
    wqe->destination_lkey = request->destination.lkey;
    if (request->window_length)
        use_buffer(request, number, run, wqe);
    put_inline(request, run, wqe);
    wqe->flags |= flags_of(request, number);
    wqe->deadline_ms = deadline_of(request, number);
    return 1;
}

/* Copy past the caches, which would read each line from memory before it is written. */
static void copy_beyond(uint8_t *to, const uint8_t *from, uint64_t length)
{
#ifdef __SSE2__
    uint64_t unaligned = -(uintptr_t)to & 15;

    if (unaligned > length)
        unaligned = length;
    memcpy(to, from, unaligned);
    for (to += unaligned, from += unaligned, length -= unaligned; length >= 16; to += 16, from += 16, length -= 16)
        _mm_stream_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
    _mm_sfence();
#endif
    memcpy(to, from, length);
}

/* Whether to copy results so. In-place results find their lines in a cache, unless they are very long. */
static int goes_beyond(const struct fanin_request *request)
{
    const struct side *source = &request->source, *destination = &request->destination;
    int in_place = source->memory == destination->memory && source->length == destination->length;

    return destination->length >= (in_place ? LONG_IN_PLACE : FANIN_LONG_BYTES);
}

static void store_part(const struct fanin_request *request, uint32_t number)
{
    const struct message *message = &request->message;
    struct run run = fanin_even_run(message, request->stream->job_params.rank, number);
    const uint8_t *buffer = place_in_buffer(request, number, &run, message->row->wants);
    uint8_t *memory = request->destination.memory + run.offset;
    uint32_t blocks = message->row->wants.own ? 1 : run.blocks;
    int beyond = goes_beyond(request);

    for (uint32_t block = 0; block < blocks; block++)
        if (beyond)
            copy_beyond(memory + block * message->block, buffer + block * run.block, run.block);
        else
            memcpy(memory + block * message->block, buffer + block * run.block, run.block);
}

void fanin_request_store(struct fanin_request *request, uint32_t number)
{
    const struct side *destination = &request->destination;

    if (!destination->memory || request->wanted.row || request->arrived)
        return;
    if (destination->way == MODE_PIPELINED)
        store_part(request, number);
    else if (destination->way == MODE_BOUNCED && number + 1 == request->count)
        memcpy(destination->memory, destination->buffer->address, destination->length);
}

/* Whether the data are inline, or in registered memory of the library, once all is posted. */
static int is_injected(const struct fanin_request *request)
{
    const struct side *source = &request->source;

    if (source->way == MODE_DIRECT || source->way == MODE_NONE)
        return source->length <= FANIN_MAX_INLINE;
    for (uint32_t i = 0; i < request->window_length; i++)
        if (request->window[i]->lkey == FANIN_LKEY_PROCESS)
            return 0;
    return source->way == MODE_PIPELINED || source->lkey != FANIN_LKEY_PROCESS;
}

void *fanin_request_landing(const struct fanin_request *request, const struct fanin_wqe *wqe)
{
    const struct side *destination = &request->destination;

    if (request->count != 1 || wqe->contributors != FANIN_CLASS_ONE || wqe->segments != 1 ||
        wqe->length > FANIN_MAX_ARRIVAL || !wqe->address.destination_blocks || destination->length != wqe->length ||
        request->source.length || request->flags & FANIN_FENCE || request->wanted.row || request->persistent ||
        request->timeout_ms)
        return NULL;
    return destination->memory ? destination->memory : destination->buffer->address;
}

/* Not a barrier, whose end is its purpose; not with a time limit, since the program asks whether all take part; not a
 * persistent request, which must have ended before it starts again. */
int fanin_request_is_one_way(const struct fanin_request *request)
{
    return request->message.row->contributors != FANIN_CLASS_NONE &&
           (!request->destination.length || request->arrived) && !request->wanted.row && !request->mismatch &&
           !request->timeout_ms && !request->persistent && !(request->flags & FANIN_FENCE) && is_injected(request);
}

int fanin_request_copies_results(const struct fanin_request *request)
{
    if (request->arrived)
        return 0;
    return request->destination.way == MODE_BOUNCED || request->destination.way == MODE_PIPELINED || request->wanted.row;
}
