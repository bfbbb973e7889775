/* How a request becomes work requests: its runs of blocks and segments, and its data on their way to and from devices.
 * The parts of a long message use bounce buffers in turn, which stay in the caches: parts are copied in and out while
 * the device works on others. Record 0013 (docs/decisions) says why in parts, and why one buffer serves both sides. */
#include "collectives/stream.h"
#include <stddef.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SIGNAL_INTERVAL 64 /* work requests: completions must tell when the queue has room */
#define LONG_IN_PLACE (32u << 20) /* bytes: longer data have left the caches before results come */

/* ---- The runs of a message ---- */

static uint64_t divide_up(uint64_t dividend, uint64_t divisor)
{
    return (dividend + divisor - 1) / divisor;
}

void fanin_use_sizes(struct message *message, const uint64_t *sizes)
{
    if (!sizes)
        return;
    message->block = sizes[0];
    for (uint32_t block = 1; block < message->blocks; block++)
        if (sizes[block] != message->block)
            message->sizes = sizes;
}

uint64_t fanin_bytes_before(const struct message *message, uint32_t end)
{
    uint64_t bytes = 0;

    if (!message->sizes)
        return __builtin_mul_overflow(message->block, end, &bytes) ? UINT64_MAX : bytes;
    for (uint32_t block = 0; block < end; block++)
        if (__builtin_add_overflow(bytes, message->sizes[block], &bytes))
            return UINT64_MAX;
    return bytes;
}

uint64_t fanin_message_length(const struct message *message)
{
    return fanin_bytes_before(message, message->blocks);
}

static int includes(struct collective_side side, uint32_t rank, uint32_t root)
{
    return side.who == WHO_EVERYONE || (side.who == WHO_ROOT && rank == root) ||
           (side.who == WHO_OTHERS && rank != root);
}

uint64_t fanin_side_length(const struct message *message, struct collective_side side, uint32_t rank)
{
    if (!includes(side, rank, message->root))
        return 0;
    if (!side.own)
        return fanin_message_length(message);
    return message->sizes ? message->sizes[rank] : message->block;
}

static struct run even_run(const struct message *message, uint32_t rank, uint32_t number)
{
    uint64_t offset = number * message->part, length = message->block - offset;

    if (message->part && message->part < length)
        length = message->part;
    return (struct run){.blocks = message->blocks, .place = rank, .block = length, .last = length, .own = length,
                        .length = length * message->blocks, .offset = offset, .next = number + 1};
}

static int uneven_run(const struct message *message, uint32_t rank, struct run *run)
{
    uint32_t i = run->next;

    *run = (struct run){.place = -1, .offset = run->offset + run->length};
    for (; i < message->blocks; i++) {
        uint64_t size = message->sizes[i];
        if (!size)
            continue;
        if (run->blocks && (run->last < run->block || size > run->block))
            break;
        if (!run->blocks)
            run->block = size;
        if (i == rank) {
            run->place = run->blocks;
            run->own = size;
        }
        run->blocks++;
        run->length += size;
        run->last = size;
    }
    run->next = i;
    return run->blocks > 0;
}

int fanin_next_run(const struct message *message, uint32_t rank, struct run *run)
{
    if (message->sizes)
        return uneven_run(message, rank, run);
    if (run->next >= fanin_count_runs(message, rank))
        return 0;
    *run = even_run(message, rank, run->next);
    return 1;
}

uint32_t fanin_count_runs(const struct message *message, uint32_t rank)
{
    struct run run = {0};
    uint32_t count = 0;

    if (!message->sizes)
        return message->part && message->block ? (uint32_t)divide_up(message->block, message->part) : 1;
    while (uneven_run(message, rank, &run))
        count++;
    return count;
}

/* ---- The work request ---- */

/* The blocks of a run that a rank brings (wants), and their offset in its memory. */
struct piece {
    uint32_t first, blocks;
    uint64_t offset;
};

static struct piece piece_of(struct collective_side side, const struct run *run, uint32_t rank, uint32_t root)
{
    if (!run->length || !includes(side, rank, root) || (side.own && run->place < 0))
        return (struct piece){0};
    if (side.own)
        return (struct piece){(uint32_t)run->place, 1, 0};
    return (struct piece){0, run->blocks, run->offset};
}

static uint32_t segment_length(const struct job_params *job_params, const struct message *message)
{
    int wide = job_params->wide && message->row->contributors == FANIN_CLASS_ALL;

    return fanin_segment_bytes(job_params->chunk, wide, message->op, message->dtype);
}

uint32_t fanin_count_positions(const struct job_params *job_params, const struct message *message,
                               const struct run *run)
{
    uint64_t segment = segment_length(job_params, message);

    if (!run->length)
        return 1;
    return (uint32_t)((run->blocks - 1) * divide_up(run->block, segment) + divide_up(run->last, segment));
}

static void write_request(const struct job_params *job_params, const struct message *message, const struct run *run,
                          struct fanin_wqe *wqe)
{
    const struct collective_row *row = message->row;
    struct piece source = piece_of(row->brings, run, job_params->rank, message->root);
    struct piece destination = piece_of(row->wants, run, job_params->rank, message->root);

    *wqe = (struct fanin_wqe){
        .opcode = FANIN_WQE_COLLECTIVE, .op = (uint8_t)message->op, .dtype = (uint8_t)message->dtype,
        .contributors = row->contributors, .route = (uint8_t)job_params->route, .address_count = 1,
        .jid = job_params->jid, .node_bitmap = job_params->node_bitmap, .rank_bitmap = job_params->rank_bitmap,
        .length = run->length, .block = run->block, .chunk = job_params->chunk,
        .segments = fanin_count_positions(job_params, message, run),
        .address = {.destination = destination.offset, .destination_first = destination.first,
                    .destination_blocks = destination.blocks, .source_first = source.first,
                    .source_blocks = source.blocks, .source = source.offset}};
    if (!run->length) { /* devices treat it as a barrier */
        wqe->contributors = FANIN_CLASS_NONE;
        wqe->op = FANIN_OP_NONE;
        wqe->dtype = FANIN_DTYPE_U8;
    }
}

/* ---- Data out ---- */

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

    if (request->source.mode == MODE_PIPELINED) {
        uint8_t *source = place_in_buffer(request, number, run, row->brings);
        bring_part(request, run, source);
        wqe->address.source = (uintptr_t)source;
        wqe->source_lkey = lkey;
    }
    if (request->destination.mode == MODE_PIPELINED) {
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

    if (source->mode == MODE_PIPELINED || request->flags & FANIN_FENCE || !length || length > FANIN_MAX_INLINE)
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
    if (destination->mode == MODE_DIRECT && destination->lkey != FANIN_LKEY_PROCESS &&
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
        write_request(job_params, &request->message, run, wqe);
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
    if (request->source.mode == MODE_BOUNCED && number == 0)
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

/* ---- Results in ---- */

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
    struct run run = even_run(message, request->stream->job_params.rank, number);
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
    if (destination->mode == MODE_PIPELINED)
        store_part(request, number);
    else if (destination->mode == MODE_BOUNCED && number + 1 == request->count)
        memcpy(destination->memory, destination->buffer->address, destination->length);
}

/* ---- What the stream asks of a request ---- */

/* Whether the data are inline, or in registered memory of the library, once all is posted. */
static int is_injected(const struct fanin_request *request)
{
    const struct side *source = &request->source;

    if (source->mode == MODE_DIRECT || source->mode == MODE_NONE)
        return source->length <= FANIN_MAX_INLINE;
    for (uint32_t i = 0; i < request->window_length; i++)
        if (request->window[i]->lkey == FANIN_LKEY_PROCESS)
            return 0;
    return source->mode == MODE_PIPELINED || source->lkey != FANIN_LKEY_PROCESS;
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
    return request->destination.mode == MODE_BOUNCED || request->destination.mode == MODE_PIPELINED ||
           request->wanted.row;
}
