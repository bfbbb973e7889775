/* Between the program's memory and the work requests: each is loaded before it is posted, and stored when it is
 * complete. The bounce buffers of a long message are used in turn, while they are in the caches: the next parts come in,
 * and the last ones go out, while the device works on those between.
 */
#include "collectives/stream.h"
#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SIGNAL_INTERVAL 64 /* work requests: a queue of silent ones would never be known to have room again */
#define LONG_IN_PLACE (32u << 20) /* bytes: the data of longer messages have left the caches before results come */

/* A part of a message of several blocks has `length` bytes of each, from `offset` on. In its buffer the blocks lie one
 * after the other, the rank's own at its place among them; what the rank brings and what comes to it in the same bytes.
 */
struct walk {
    uint64_t blocks;          /* that this side has */
    uint64_t offset, length;
    uint8_t *part;            /* where the first of them lies in the buffer */
};

static struct walk walk_of(const struct fanin_request *request, uint32_t number, struct collective_side side)
{
    uint64_t block = request->message.block, offset = number * request->part, rest = block - offset;
    uint64_t length = rest < request->part ? rest : request->part;
    uint8_t *buffer = request->window[number % request->window_length]->address;

    if (!request->cuts_blocks)
        return (struct walk){1, offset, length, buffer};
    if (side.own)
        return (struct walk){1, offset, length, buffer + request->stream->terms.rank * length};
    return (struct walk){request->message.blocks, offset, length, buffer};
}

static void bring_part(const struct fanin_request *request, uint32_t number)
{
    struct walk walk = walk_of(request, number, request->message.row->brings);

    for (uint64_t block = 0; block < walk.blocks; block++)
        memcpy(walk.part + block * walk.length,
               request->source.memory + block * request->message.block + walk.offset, walk.length);
}

/* Work request `number` of a message whose parts have a bit of each block: a message of shorter blocks. */
static void load_cut(struct fanin_request *request, uint32_t number, struct fanin_wqe *wqe)
{
    const struct message *whole = &request->message;
    struct bounce_buffer *buffer = request->window[number % request->window_length];
    struct walk source = walk_of(request, number, whole->row->brings);
    struct walk destination = walk_of(request, number, whole->row->wants);
    struct message message = *whole;
    struct run run = {0};

    message.block = source.length;
    message.source = (struct target){(uintptr_t)source.part, buffer->lkey};
    message.destination = (struct target){(uintptr_t)destination.part, buffer->lkey};
    fanin_next_run(&message, request->stream->terms.rank, &run);
    fanin_write_request(&request->stream->terms, &message, &run, wqe);
}

/* Work request `number` of a message that is cut into runs. The buffer of a part is addressed as if all were there. */
static void load_run(struct fanin_request *request, uint32_t number, struct fanin_wqe *wqe)
{
    struct message message = request->message;

    request->loaded = request->run;
    fanin_next_run(&message, request->stream->terms.rank, &request->loaded);
    if (request->window_length) {
        struct bounce_buffer *buffer = request->window[number % request->window_length];
        struct target target = {(uintptr_t)buffer->address - request->loaded.offset, buffer->lkey};
        if (request->source.way == WAY_PIPELINED)
            message.source = target;
        if (request->destination.way == WAY_PIPELINED)
            message.destination = target;
    }
    fanin_write_request(&request->stream->terms, &message, &request->loaded, wqe);
}

/* Data of a few bytes go into the work request, but not of one that waits for others to write them. */
static void put_inline(const struct fanin_request *request, struct fanin_wqe *wqe)
{
    const struct side *source = &request->source;
    const void *data = (const void *)(uintptr_t)wqe->address.source;
    uint64_t length = !wqe->address.source_blocks ? 0 : request->message.row->brings.own
                          ? fanin_size_of(&request->message, request->stream->terms.rank) : wqe->length;

    if (source->way == WAY_PIPELINED || request->flags & FANIN_FENCE || !length || length > FANIN_MAX_INLINE)
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
    if (destination->way == WAY_DIRECT && request->message.destination.lkey != FANIN_LKEY_PROCESS &&
        fanin_message_length(&request->message) >= FANIN_LONG_BYTES)
        flags |= FANIN_WQE_LONG;
    return flags;
}

/* What is left of the time for all ranks to take part, when a later part is posted. */
static uint32_t deadline_of(struct fanin_request *request, uint32_t number)
{
    uint64_t now, passed;

    if (!request->timeout_ms)
        return 0;
    now = fanin_now_ms();
    if (number == 0)
        request->began_ms = now;
    passed = now - request->began_ms;
    return passed < request->timeout_ms ? request->timeout_ms - (uint32_t)passed : 1;
}

const struct fanin_wqe *fanin_request_load(struct fanin_request *request, struct fanin_wqe *wqe)
{
    uint32_t number = request->posted;

    if (request->window_length && number - request->taken == request->window_length)
        return NULL;
    if (request->source.way == WAY_PIPELINED)
        bring_part(request, number);
    else if (request->source.way == WAY_BOUNCED && number == 0)
        memcpy(request->source.buffer->address, request->source.memory, request->source.length);
    if (request->cuts_blocks)
        load_cut(request, number, wqe);
    else
        load_run(request, number, wqe);
    put_inline(request, wqe);
    wqe->flags |= flags_of(request, number);
    wqe->mid = request->agreement << FANIN_MID_BITS;
    wqe->deadline_ms = deadline_of(request, number);
    return wqe;
}

/* Copy past the caches: else each line would be read from memory before it is written. */
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

/* Whether results do. Those in the place of their data find the lines in a cache, unless there are very many. */
static int goes_beyond(const struct fanin_request *request)
{
    const struct side *source = &request->source, *destination = &request->destination;
    int in_place = source->memory == destination->memory && source->length == destination->length;

    return destination->length >= (in_place ? LONG_IN_PLACE : FANIN_LONG_BYTES);
}

static void store_part(const struct fanin_request *request, uint32_t number)
{
    struct walk walk = walk_of(request, number, request->message.row->wants);
    int beyond = goes_beyond(request);

    for (uint64_t block = 0; block < walk.blocks; block++) {
        uint8_t *place = request->destination.memory + block * request->message.block + walk.offset;
        if (beyond)
            copy_beyond(place, walk.part + block * walk.length, walk.length);
        else
            memcpy(place, walk.part + block * walk.length, walk.length);
    }
}

void fanin_request_store(struct fanin_request *request, uint32_t number)
{
    const struct side *destination = &request->destination;

    if (!destination->memory || request->wanted.row)
        return;
    if (destination->way == WAY_PIPELINED)
        store_part(request, number);
    else if (destination->way == WAY_BOUNCED && number + 1 == request->count)
        memcpy(destination->memory, destination->buffer->address, destination->length);
}

int fanin_request_copies_results(const struct fanin_request *request)
{
    return request->destination.way == WAY_BOUNCED || request->destination.way == WAY_PIPELINED || request->wanted.row;
}
