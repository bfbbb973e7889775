/* How an operation becomes a request: its message, and the memory through which its data go. Each rank decides the
 * latter by itself: devices and other ranks see no difference. */
#include "collectives/stream.h"
#include "complaint.h"
#include "memory/rights.h"
#include "mix.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096 /* or more */

static int has_root(const struct collective_row *row)
{
    return row->brings.who == WHO_ROOT || row->wants.who == WHO_ROOT;
}

static enum fanin_status check_elements(const struct job_params *job_params, const struct fanin_operation *operation,
                                        const struct collective_row *row)
{
    int has_sizes = operation->sizes && row->divided;

    for (uint32_t i = 0; i < (has_sizes ? job_params->ranks : 1); i++) {
        uint64_t bytes = has_sizes ? operation->sizes[i] : operation->block;
        if (bytes % fanin_dtype_bytes(operation->dtype))
            return fanin_complain("%s: block size %llu is not a multiple of the element size %u", row->name,
                                  (unsigned long long)bytes, fanin_dtype_bytes(operation->dtype));
    }
    return FANIN_SUCCESS;
}

enum fanin_status fanin_request_check(const struct job_params *job_params, const struct fanin_operation *operation)
{
    uint32_t known = FANIN_FENCE | FANIN_ALL_BLOCK | FANIN_EXCHANGE_SIZES;
    const struct collective_row *row;

    if (operation->collective >= COLLECTIVE_COUNT)
        return fanin_complain("collective %u is unknown; the last is %d", operation->collective, COLLECTIVE_COUNT - 1);
    row = &fanin_collectives[operation->collective];
    if (has_root(row) && operation->root >= job_params->ranks)
        return fanin_complain("%s: root %u is not a rank from 0 to %u", row->name, operation->root,
                              job_params->ranks - 1);
    if (operation->flags & ~known)
        return fanin_complain("%s: flags %#x have unknown bits", row->name, operation->flags);
    if (operation->reserved)
        return fanin_complain("%s: reserved is %u; set it to 0", row->name, operation->reserved);
    if (operation->flags & FANIN_EXCHANGE_SIZES && !row->is_vector)
        return fanin_complain("%s: only the v-forms can exchange sizes", row->name);
    if (row->contributors != FANIN_CLASS_ALL)
        return FANIN_SUCCESS;
    if (!fanin_is_supported(operation->op, operation->dtype)) {
        fanin_complain("%s: devices do not compute op %u over dtype %u", row->name, operation->op, operation->dtype);
        return FANIN_NOT_SUPPORTED;
    }
    return check_elements(job_params, operation, row);
}

/* Whether results could overwrite data that are still to be read. */
static int overlaps(const struct fanin_request *request)
{
    const struct side *source = &request->source, *destination = &request->destination;
    const struct collective_row *row = request->message.row;
    uint64_t before = fanin_bytes_before(&request->message, request->stream->job_params.rank);

    if (!source->length || !destination->length || !destination->memory ||
        destination->memory >= source->memory + source->length ||
        source->memory >= destination->memory + destination->length)
        return 0;
    return source->memory - (row->brings.own ? before : 0) != destination->memory - (row->wants.own ? before : 0);
}

static enum fanin_status take_sizes(struct fanin_request *request, const uint64_t *sizes)
{
    uint64_t length = request->stream->job_params.ranks * sizeof *sizes;

    if (!request->sizes && !(request->sizes = malloc(length)))
        return FANIN_NO_RESOURCES;
    memcpy(request->sizes, sizes, length);
    return FANIN_SUCCESS;
}

/* Bytes of a part of a message of one block. */
static uint64_t part_length(uint64_t length)
{
    uint64_t part = PART_BYTES;

    while (part < (length + MAX_PARTS - 1) / MAX_PARTS)
        part *= 2;
    return part;
}

void fanin_make_message(const struct job_params *job_params, const struct fanin_operation *operation,
                        struct message *message)
{
    const struct collective_row *row = &fanin_collectives[operation->collective];
    int computes = row->contributors == FANIN_CLASS_ALL;
    uint32_t has_blocks = row->contributors != FANIN_CLASS_NONE;

    *message = (struct message){.row = row, .root = has_root(row) ? operation->root : 0,
                                .op = computes ? operation->op : FANIN_OP_NONE,
                                .dtype = computes ? operation->dtype : FANIN_DTYPE_U8,
                                .blocks = row->divided ? job_params->ranks : has_blocks,
                                .block = has_blocks ? operation->block : 0,
                                .part = row->divided ? 0 : part_length(operation->block)};
}

static void give_back(struct fanin_request *request, struct bounce_buffer **place, int quarantined)
{
    struct bounce_buffer *buffer = *place;

    *place = NULL;
    if (!buffer || !request->stream->context) /* the connection took its buffers with it */
        return;
    if (quarantined) {
        buffer->next = request->stream->quarantined;
        request->stream->quarantined = buffer;
    } else {
        fanin_return_buffer(request->stream->context, buffer);
    }
}

/* Bytes of each block in a part of a message of several blocks: whole segments. 0: it is not cut. The decision depends
 * only on what all ranks know. */
static uint64_t part_of_blocks(const struct fanin_request *request)
{
    const struct message *message = &request->message;
    uint64_t length = fanin_message_length(message), chunk = request->stream->job_params.chunk, part;

    if (!request->waits || (request->flags & (FANIN_ALL_BLOCK | FANIN_EXCHANGE_SIZES)) != FANIN_ALL_BLOCK ||
        message->sizes || message->blocks < 2 || length < PART_BYTES)
        return 0;
    part = part_length(length) / message->blocks / chunk * chunk;
    return part ? part : chunk;
}

/* How the device reaches a side. Inline data need no buffer. */
static enum transfer_mode transfer_mode_of(const struct fanin_request *request, struct side *side)
{
    side->address = (uintptr_t)side->memory;
    side->lkey = FANIN_LKEY_PROCESS;
    if (!side->length)
        return MODE_NONE;
    if (request->message.row->divided && request->message.part)
        return MODE_PIPELINED;
    if (!side->memory)
        return MODE_BOUNCED;
    if (side == &request->source && side->length <= FANIN_MAX_INLINE && !(request->flags & FANIN_FENCE))
        return MODE_DIRECT;
    side->lkey = fanin_lkey_of(request->stream->context, side->memory, side->length);
    /* Behind a fence data are read later, when the library may not run. */
    if (side->lkey != FANIN_LKEY_PROCESS || request->flags & FANIN_FENCE)
        return MODE_DIRECT;
    return request->waits && request->count > 1 && !request->message.row->divided ? MODE_PIPELINED : MODE_BOUNCED;
}

/* With one buffer, one part is under way at a time. */
static enum fanin_status fill_window(struct fanin_request *request)
{
    uint64_t length = request->message.part * request->message.blocks;
    uint32_t wanted = request->count < WINDOW ? request->count : WINDOW;

    while (request->window_length < wanted) {
        struct bounce_buffer *buffer = fanin_obtain_buffer(request->stream->context, length);
        if (!buffer)
            break;
        request->window[request->window_length++] = buffer;
    }
    return request->window_length ? FANIN_SUCCESS : FANIN_NO_RESOURCES;
}

/* Let `buffer` stand in for the memory of a side. NULL: the device reaches the memory itself. */
static void stand_in(struct side *side, struct bounce_buffer *buffer)
{
    side->buffer = buffer;
    if (buffer) {
        side->address = (uintptr_t)buffer->address;
        side->lkey = buffer->lkey;
    } else {
        side->mode = MODE_DIRECT;
    }
}

/* If data and result have equal length they share a buffer, since a segment is written after it is read: half as much
 * memory occupies the caches. */
static enum fanin_status bounce(struct fanin_request *request)
{
    struct fanin_context *context = request->stream->context;
    struct side *source = &request->source, *destination = &request->destination;
    struct bounce_buffer *buffer;

    if (source->mode == MODE_BOUNCED)
        stand_in(source, fanin_borrow_buffer(context, source->length));
    if (destination->mode != MODE_BOUNCED)
        return FANIN_SUCCESS;
    if (source->buffer && source->length == destination->length)
        buffer = source->buffer;
    else if (destination->memory)
        buffer = fanin_borrow_buffer(context, destination->length);
    else
        buffer = fanin_obtain_buffer(context, destination->length);
    stand_in(destination, buffer);
    return buffer || destination->memory ? FANIN_SUCCESS : FANIN_NO_RESOURCES;
}

/* Digest, of 16 bits, of the arguments that must be equal on all ranks and that no packet carries. It travels in the
 * upper half of the mid, where devices compare it (record 0003 in docs/decisions). */
static uint32_t agreement_of(const struct message *message, uint32_t tag)
{
    int computes = message->row->contributors == FANIN_CLASS_ALL;
    uint64_t digest = mix(0xcbf29ce484222325ull, (uint64_t)(message->row - fanin_collectives) << 32 | message->root);

    digest = mix(digest, (uint64_t)(computes ? message->dtype : 0) << 32 | tag);
    digest = mix(digest, (uint64_t)message->blocks << 1 | (message->sizes != NULL));
    if (!message->sizes)
        digest = mix(digest, message->block);
    for (uint32_t block = 0; message->sizes && block < message->blocks; block++)
        digest = mix(digest, message->sizes[block]);
    return (uint32_t)(digest >> 16) & ((1u << FANIN_MID_BITS) - 1);
}

static enum fanin_status shape(struct fanin_request *request)
{
    struct message *message = &request->message;

    if (fanin_message_length(message) > INT64_MAX)
        return fanin_complain("%s: the message has more than 2^63 - 1 bytes", message->row->name);
    request->agreement = agreement_of(message, request->tag);
    if (message->row->divided)
        message->part = part_of_blocks(request);
    request->count = fanin_count_runs(message, request->stream->job_params.rank);
    request->has_draft = 0;
    return FANIN_SUCCESS;
}

/* Whether a short result may have arrived before it is asked for. Then it needs no buffer. A message with a block for
 * each rank never comes so. */
static int may_have_arrived(const struct fanin_request *request)
{
    const struct side *destination = &request->destination;
    const struct collective_row *row = request->message.row;

    return request->count == 1 && !(request->flags & FANIN_FENCE) && destination->memory && destination->length &&
           !request->source.length && destination->length <= FANIN_MAX_ARRIVAL &&
           row->contributors == FANIN_CLASS_ONE && !row->divided &&
           fanin_has_arrivals(request->stream->context, request->stream->qp);
}

/* Writes to each page, so that a place that the program may not write raises SIGSEGV, as where the library copies. */
static void touch(uint8_t *memory, uint64_t length)
{
    for (uint64_t at = 0; at < length; at += PAGE_BYTES)
        *(volatile uint8_t *)(memory + at) = *(volatile uint8_t *)(memory + at);
    *(volatile uint8_t *)(memory + length - 1) = *(volatile uint8_t *)(memory + length - 1);
}

void fanin_request_choose_mode(struct fanin_request *request, struct fanin_wqe *wqe)
{
    struct side *destination = &request->destination;

    destination->mode = transfer_mode_of(request, destination);
    if (destination->mode == MODE_BOUNCED)
        stand_in(destination, fanin_borrow_buffer(request->stream->context, destination->length));
    if (destination->lkey == FANIN_LKEY_PROCESS) /* no buffer: the device writes by a system call */
        touch(destination->memory, destination->length);
    wqe->address.destination += destination->address;
    wqe->destination_lkey = destination->lkey;
}

static enum fanin_status check_reach(const struct fanin_request *request)
{
    const struct side *source = &request->source, *destination = &request->destination;
    int is_inline = source->length <= FANIN_MAX_INLINE && !(request->flags & FANIN_FENCE);

    if (!reaches_registered_memory_only(request->stream->context) ||
        ((source->mode != MODE_DIRECT || source->lkey != FANIN_LKEY_PROCESS || is_inline) &&
         (destination->mode != MODE_DIRECT || destination->lkey != FANIN_LKEY_PROCESS)))
        return FANIN_SUCCESS;
    fanin_complain("%s: a device over RDMA reaches only registered memory, and no bounce buffer serves this message, "
                   "which is behind a fence or too long; use memory of fanin_allocate or Communicator.alloc",
                   request->message.row->name);
    return FANIN_NOT_SUPPORTED;
}

/* A system call of the device would override the access rights of the destination, so they are checked here. A source
 * that can not be read is left to the device, which poisons the positions, so the ranks stay in step. */
static enum fanin_status check_rights(const struct fanin_request *request)
{
    const struct side *destination = &request->destination;

    if (destination->mode != MODE_DIRECT || destination->lkey != FANIN_LKEY_PROCESS)
        return FANIN_SUCCESS;
    return fanin_check_rights(destination->memory, destination->length, 1);
}

static enum fanin_status place(struct fanin_request *request)
{
    const struct job_params *job_params = &request->stream->job_params;
    const struct message *message = &request->message;
    const struct collective_row *row = message->row;
    enum fanin_status status;

    request->source.length = fanin_side_length(message, row->brings, job_params->rank);
    request->destination.length = fanin_side_length(message, row->wants, job_params->rank);
    if (request->source.length && !request->source.memory)
        return fanin_complain("%s: source is NULL, but this rank brings %llu bytes", row->name,
                              (unsigned long long)request->source.length);
    if (overlaps(request))
        return fanin_complain("%s: source and destination overlap, but not block on block", row->name);
    request->posted = request->taken = 0;
    request->run = (struct run){0};
    if (may_have_arrived(request)) {
        request->destination.mode = MODE_OPEN;
        request->destination.address = 0;
        request->destination.lkey = FANIN_LKEY_PROCESS;
        return FANIN_SUCCESS;
    }
    request->source.mode = transfer_mode_of(request, &request->source);
    request->destination.mode = transfer_mode_of(request, &request->destination);
    if (request->source.mode == MODE_PIPELINED || request->destination.mode == MODE_PIPELINED) {
        status = fill_window(request);
        if (status != FANIN_SUCCESS)
            return status;
    }
    status = bounce(request);
    if (status == FANIN_SUCCESS)
        status = check_reach(request);
    return status == FANIN_SUCCESS ? check_rights(request) : status;
}

/* The message with the sizes: in a scatter the root's, otherwise each rank's own. */
static enum fanin_status place_exchange(struct fanin_request *request, uint32_t collective)
{
    uint32_t rank = request->stream->job_params.rank, ranks = request->stream->job_params.ranks;
    uint64_t *sizes, length = ranks * sizeof *sizes;
    const struct message *wanted = &request->wanted;
    int gathers = wanted->row->brings.who != WHO_ROOT;
    struct bounce_buffer *buffer;

    if (!gathers && rank == wanted->root && !request->sizes)
        return fanin_complain("%s: the root must give sizes", wanted->row->name);
    buffer = fanin_obtain_buffer(request->stream->context, length);
    if (!buffer)
        return FANIN_NO_RESOURCES;
    stand_in(&request->source, buffer);
    stand_in(&request->destination, buffer);
    sizes = (uint64_t *)buffer->address;
    if (gathers) {
        sizes[rank] = wanted->block;
        request->source.address += rank * sizeof *sizes;
    } else if (rank == wanted->root) {
        memcpy(sizes, request->sizes, length);
    }
    request->message = (struct message){.row = &fanin_collectives[gathers ? FANIN_ALLGATHER : FANIN_BROADCAST],
                                        .root = wanted->root, .dtype = FANIN_DTYPE_U8,
                                        .blocks = gathers ? ranks : 1, .block = gathers ? sizeof *sizes : length};
    request->agreement = agreement_of(&request->message, request->tag + 1 + collective);
    request->count = 1;
    return FANIN_SUCCESS;
}

int fanin_request_fits(const struct fanin_request *request, const struct fanin_operation *operation, int waits)
{
    return request->is_shaped && request->waits == waits && !operation->sizes &&
           !memcmp(&request->operation, operation, offsetof(struct fanin_operation, sizes));
}

static enum fanin_status make_shape(struct fanin_request *request, const struct fanin_operation *operation, int waits)
{
    enum fanin_status status = fanin_request_check(&request->stream->job_params, operation);

    if (status != FANIN_SUCCESS)
        return status;
    request->operation = *operation;
    request->flags = operation->flags;
    request->tag = operation->tag;
    request->timeout_ms = operation->timeout_ms;
    request->waits = (uint8_t)waits;
    fanin_make_message(&request->stream->job_params, operation, &request->message);
    if (operation->sizes && request->message.row->divided)
        status = take_sizes(request, operation->sizes);
    if (status != FANIN_SUCCESS || operation->flags & FANIN_EXCHANGE_SIZES)
        return status;
    fanin_use_sizes(&request->message, request->sizes);
    status = shape(request);
    request->is_shaped = status == FANIN_SUCCESS && !request->sizes;
    return status;
}

enum fanin_status fanin_request_begin(struct fanin_request *request, struct stream *stream,
                                      const struct fanin_operation *operation, int waits)
{
    size_t start = offsetof(struct fanin_request, source);
    enum fanin_status status = FANIN_SUCCESS;

    memset((char *)request + start, 0, sizeof *request - start);
    request->stream = stream;
    if (!fanin_request_fits(request, operation, waits)) {
        request->is_shaped = request->has_draft = 0;
        status = make_shape(request, operation, waits);
    }
    request->source.memory = (uint8_t *)(uintptr_t)operation->source;
    request->destination.memory = operation->destination;
    if (status == FANIN_SUCCESS && operation->flags & FANIN_EXCHANGE_SIZES) {
        request->wanted = request->message;
        status = place_exchange(request, operation->collective);
    } else if (status == FANIN_SUCCESS) {
        status = place(request);
    }
    if (status != FANIN_SUCCESS)
        fanin_request_destroy(request);
    return status;
}

/* Whether the sizes are those expected here. Otherwise this rank gets an error, and the others their data. */
static int expects(const struct fanin_request *request, const uint64_t *sizes)
{
    uint32_t ranks = request->stream->job_params.ranks, rank = request->stream->job_params.rank;
    const struct message *wanted = &request->wanted;
    int is_sender = wanted->row->brings.who == WHO_ROOT && rank == wanted->root;

    if (!is_sender && wanted->block != (uint64_t)FANIN_ANY_SIZE && wanted->block != sizes[rank])
        return 0;
    return !request->sizes || !memcmp(request->sizes, sizes, ranks * sizeof *sizes);
}

enum fanin_status fanin_request_expand(struct fanin_request *request)
{
    const uint64_t *sizes = (const uint64_t *)request->destination.buffer->address;
    enum fanin_status status;

    request->mismatch = !expects(request, sizes);
    status = take_sizes(request, sizes);
    if (status != FANIN_SUCCESS)
        return status;
    fanin_request_idle(request);
    request->message = request->wanted;
    request->wanted.row = NULL;
    fanin_use_sizes(&request->message, request->sizes);
    if (request->mismatch)
        request->destination.memory = NULL; /* what comes must not overwrite anything */
    status = shape(request);
    return status == FANIN_SUCCESS ? place(request) : status;
}

void fanin_return_quarantined(struct stream *stream)
{
    while (stream->quarantined) {
        struct bounce_buffer *buffer = stream->quarantined;
        stream->quarantined = buffer->next;
        fanin_return_buffer(stream->context, buffer);
    }
}

static void give_back_all(struct fanin_request *request, int quarantined, int keeps_result)
{
    struct side *source = &request->source, *destination = &request->destination;

    if (source->buffer == destination->buffer)
        source->buffer = NULL;
    give_back(request, &source->buffer, quarantined);
    if (!keeps_result)
        give_back(request, &destination->buffer, quarantined);
    while (request->window_length)
        give_back(request, &request->window[--request->window_length], quarantined);
}

void fanin_request_idle(struct fanin_request *request)
{
    give_back_all(request, 0, 0);
}

enum fanin_status fanin_request_reset(struct fanin_request *request)
{
    fanin_request_idle(request);
    request->status = FANIN_SUCCESS;
    request->failure = (struct fanin_cqe){0};
    __atomic_store_n(&request->done, 0, __ATOMIC_RELAXED);
    return place(request);
}

void fanin_request_release(struct fanin_request *request, int quarantined)
{
    give_back_all(request, quarantined, !request->destination.memory && request->status == FANIN_SUCCESS);
}

void fanin_request_destroy(struct fanin_request *request)
{
    /* Without a connection, only buffers in ordinary memory are left. */
    if (!request->stream->context && request->destination.lkey == FANIN_LKEY_PROCESS)
        free(request->destination.buffer);
    fanin_request_idle(request);
    free(request->sizes);
    request->sizes = NULL;
}
