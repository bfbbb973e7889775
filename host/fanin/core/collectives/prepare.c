/* From an operation to a request: its message, and the memory through which its data go.
 *
 * How a rank has its data in memory is its own affair: to the devices and the other ranks all requests look alike.
 */
#include "collectives/stream.h"
#include "complaint.h"
#include <stdlib.h>
#include <string.h>

static int has_root(const struct collective_row *row)
{
    return row->brings.who == WHO_ROOT || row->wants.who == WHO_ROOT;
}

enum fanin_status fanin_request_check(const struct terms *terms, const struct fanin_operation *operation)
{
    uint32_t known = FANIN_FENCE | FANIN_ALL_BLOCK | FANIN_EXCHANGE_SIZES;
    const struct collective_row *row;

    if (operation->collective >= COLLECTIVE_COUNT) {
        fanin_complain("there is no collective %u", operation->collective);
        return FANIN_INVALID_REQUEST;
    }
    row = &fanin_collectives[operation->collective];
    if (has_root(row) && operation->root >= terms->ranks)
        fanin_complain("%s: root %u is none of the ranks 0 to %u", row->name, operation->root, terms->ranks - 1);
    else if (operation->flags & ~known)
        fanin_complain("%s: the flags %#x have bits that mean nothing", row->name, operation->flags);
    else if (operation->reserved)
        fanin_complain("%s: the reserved field is %u, not 0", row->name, operation->reserved);
    else if (operation->flags & FANIN_EXCHANGE_SIZES && !row->is_vector)
        fanin_complain("%s: sizes are exchanged in the v-forms only", row->name);
    else if (row->contributors != FANIN_CLASS_ALL || fanin_is_supported(operation->op, operation->dtype))
        return FANIN_SUCCESS;
    else {
        fanin_complain("%s: devices do not compute op %u over dtype %u", row->name, operation->op, operation->dtype);
        return FANIN_NOT_SUPPORTED;
    }
    return FANIN_INVALID_REQUEST;
}

/* Bytes of the message before what a rank has of a side. */
static uint64_t bytes_before(const struct message *message, struct collective_side side, uint32_t rank)
{
    uint64_t bytes = 0;

    for (uint32_t block = 0; side.own && block < rank; block++)
        bytes += fanin_size_of(message, block);
    return bytes;
}

/* Whether results would go over data that are still to be read: both lie in one memory, and not block on block. */
static int overlaps(const struct fanin_request *request)
{
    const struct side *source = &request->source, *destination = &request->destination;
    const struct collective_row *row = request->message.row;
    uint32_t rank = request->stream->terms.rank;

    if (!source->length || !destination->length || !destination->memory ||
        destination->memory >= source->memory + source->length ||
        source->memory >= destination->memory + destination->length)
        return 0;
    return source->memory - bytes_before(&request->message, row->brings, rank) !=
           destination->memory - bytes_before(&request->message, row->wants, rank);
}

static enum fanin_status make_room_for_sizes(struct fanin_request *request)
{
    uint32_t ranks = request->stream->terms.ranks;

    request->sizes = ranks > FEW ? malloc(ranks * sizeof *request->sizes) : request->few;
    return request->sizes ? FANIN_SUCCESS : FANIN_NO_RESOURCES;
}

/* Even sizes are one number, however they were given. */
static void use_sizes(struct message *message, const uint64_t *sizes)
{
    message->sizes = NULL;
    message->block = sizes[0];
    for (uint32_t block = 1; block < message->blocks; block++)
        if (sizes[block] != sizes[0])
            message->sizes = sizes;
}

void fanin_make_message(const struct terms *terms, const struct fanin_operation *operation, struct message *message)
{
    const struct collective_row *row = &fanin_collectives[operation->collective];
    int computes = row->contributors == FANIN_CLASS_ALL;

    *message = (struct message){.row = row, .root = has_root(row) ? operation->root : 0, .block = operation->block,
                                .op = computes ? operation->op : FANIN_OP_NONE,
                                .dtype = computes ? operation->dtype : FANIN_DTYPE_U8,
                                .blocks = row->divided ? terms->ranks : row->contributors != FANIN_CLASS_NONE};
}

/* A buffer from the pool, or else ordinary memory in the shape of one. NULL: there is neither. */
static struct bounce_buffer *buffer_of(struct fanin_request *request, uint64_t length)
{
    struct bounce_buffer *buffer = fanin_borrow_buffer(request->stream->context, length);

    if (!buffer && (buffer = malloc(sizeof *buffer + length)))
        *buffer = (struct bounce_buffer){.address = (uint8_t *)(buffer + 1), .lkey = FANIN_LKEY_PROCESS};
    return buffer;
}

static void give_back(struct fanin_request *request, struct bounce_buffer *buffer, int spoiled)
{
    if (!buffer || !request->stream->context) /* with the connection went all its buffers */
        return;
    if (spoiled) {
        buffer->next = request->stream->spoiled;
        request->stream->spoiled = buffer;
    } else if (buffer->region) {
        fanin_return_buffer(request->stream->context, buffer);
    } else {
        free(buffer);
    }
}

/* Bytes of each block in a part of a message of several blocks: whole segments. */
static uint64_t part_of_block(const struct message *message, uint32_t chunk)
{
    uint64_t part = fanin_part_length(message->block * message->blocks) / message->blocks / chunk * chunk;

    return part ? part : chunk;
}

/* Only what all ranks know decides. */
static int cuts_blocks(const struct fanin_request *request)
{
    const struct message *message = &request->message;

    return request->waits && (request->flags & (FANIN_ALL_BLOCK | FANIN_EXCHANGE_SIZES)) == FANIN_ALL_BLOCK &&
           message->row->divided && !message->sizes && message->blocks > 1 && fanin_message_length(message) >= PART_BYTES;
}

/* How the device reaches `side`. An input that goes into the work request needs no buffer. */
static enum way way_of(const struct fanin_request *request, struct side *side, struct target *target, int is_source)
{
    *target = (struct target){(uintptr_t)side->memory, FANIN_LKEY_PROCESS};
    if (!side->length)
        return WAY_NONE;
    if (request->cuts_blocks)
        return WAY_PIPELINED;
    if (!side->memory)
        return WAY_BOUNCED;
    if (is_source && side->length <= FANIN_MAX_INLINE && !(request->flags & FANIN_FENCE))
        return WAY_DIRECT;
    target->lkey = fanin_lkey_of(request->stream->context, side->memory, side->length);
    /* What begins behind a fence is read later, when the library may not run. */
    if (target->lkey != FANIN_LKEY_PROCESS || request->flags & FANIN_FENCE)
        return WAY_DIRECT;
    return request->waits && request->count > 1 && !request->message.row->divided ? WAY_PIPELINED : WAY_BOUNCED;
}

/* One buffer is enough: then one part is under way at a time. */
static enum fanin_status fill_window(struct fanin_request *request)
{
    uint64_t length = request->part * request->message.blocks;
    uint32_t wanted = request->count < WINDOW ? request->count : WINDOW;

    for (request->window_length = 0; request->window_length < wanted; request->window_length++) {
        struct bounce_buffer *buffer = buffer_of(request, length);
        if (!buffer)
            break;
        request->window[request->window_length] = buffer;
    }
    return request->window_length ? FANIN_SUCCESS : FANIN_NO_RESOURCES;
}

/* Where as many bytes come as are brought, they are the same blocks. One buffer serves for both then: a segment is
 * written when it has been read, and half as much memory is in the caches. */
static enum fanin_status bounce(struct fanin_request *request)
{
    struct side *source = &request->source, *destination = &request->destination;

    if (source->way == WAY_BOUNCED) {
        source->buffer = fanin_borrow_buffer(request->stream->context, source->length);
        if (source->buffer)
            request->message.source = (struct target){(uintptr_t)source->buffer->address, source->buffer->lkey};
        else
            source->way = WAY_DIRECT;
    }
    if (destination->way == WAY_BOUNCED) {
        if (source->buffer && source->length == destination->length)
            destination->buffer = source->buffer;
        else if (!destination->memory)
            destination->buffer = buffer_of(request, destination->length);
        else
            destination->buffer = fanin_borrow_buffer(request->stream->context, destination->length);
        if (!destination->buffer && !destination->memory)
            return FANIN_NO_RESOURCES;
        if (destination->buffer)
            request->message.destination =
                (struct target){(uintptr_t)destination->buffer->address, destination->buffer->lkey};
        else
            destination->way = WAY_DIRECT;
    }
    return FANIN_SUCCESS;
}

static int is_too_long(const struct message *message)
{
    uint64_t total = 0;

    for (uint32_t block = 0; block < message->blocks; block++)
        if (__builtin_add_overflow(total, fanin_size_of(message, block), &total) || total > INT64_MAX)
            return 1;
    return 0;
}

/* The message is known: decide how its data go. */
static enum fanin_status place(struct fanin_request *request)
{
    const struct terms *terms = &request->stream->terms;
    struct message *message = &request->message;
    const struct collective_row *row = message->row;

    if (is_too_long(message)) {
        fanin_complain("%s: the message has more bytes than any memory", row->name);
        return FANIN_INVALID_REQUEST;
    }
    request->agreement = fanin_agreement(message, request->tag);
    request->source.length = fanin_side_length(message, row->brings, terms->rank);
    request->destination.length = fanin_side_length(message, row->wants, terms->rank);
    if (request->source.length && !request->source.memory) {
        fanin_complain("%s: this rank brings %llu bytes, and source is NULL", row->name,
                       (unsigned long long)request->source.length);
        return FANIN_INVALID_REQUEST;
    }
    if (overlaps(request)) {
        fanin_complain("%s: source and destination overlap, and not block on block", row->name);
        return FANIN_INVALID_REQUEST;
    }
    request->cuts_blocks = (uint8_t)cuts_blocks(request);
    request->part = request->cuts_blocks ? part_of_block(message, terms->chunk) : fanin_part_length(message->block);
    request->count = request->cuts_blocks ? (uint32_t)((message->block + request->part - 1) / request->part)
                                          : fanin_count_runs(message, terms->rank);
    request->source.way = way_of(request, &request->source, &message->source, 1);
    request->destination.way = way_of(request, &request->destination, &message->destination, 0);
    if (request->source.way == WAY_PIPELINED || request->destination.way == WAY_PIPELINED) {
        enum fanin_status status = fill_window(request);
        if (status != FANIN_SUCCESS)
            return status;
    }
    return bounce(request);
}

/* The message by which the ranks tell each other the sizes: of a scatter the root tells all, else each its own. */
static enum fanin_status place_exchange(struct fanin_request *request, uint32_t collective)
{
    uint64_t *sizes, length = request->stream->terms.ranks * sizeof *sizes;
    int gathers = request->wanted.row->brings.who != WHO_ROOT;
    struct message *message = &request->message;

    if (!gathers && request->stream->terms.rank == request->wanted.root && !request->has_expectations) {
        fanin_complain("%s: the root gives no sizes", request->wanted.row->name);
        return FANIN_INVALID_REQUEST;
    }
    request->exchange = buffer_of(request, length);
    if (!request->exchange)
        return FANIN_NO_RESOURCES;
    sizes = (uint64_t *)request->exchange->address;
    *message = (struct message){.row = &fanin_collectives[gathers ? FANIN_ALLGATHER : FANIN_BROADCAST],
                                .root = request->wanted.root, .dtype = FANIN_DTYPE_U8,
                                .blocks = gathers ? request->stream->terms.ranks : 1,
                                .block = gathers ? sizeof *sizes : length,
                                .source = {(uintptr_t)sizes, request->exchange->lkey},
                                .destination = {(uintptr_t)sizes, request->exchange->lkey}};
    if (gathers)
        message->source = (struct target){(uintptr_t)&request->own_block, FANIN_LKEY_PROCESS};
    else if (request->stream->terms.rank == message->root)
        memcpy(sizes, request->sizes, length);
    request->agreement = fanin_agreement(message, request->tag + 1 + collective);
    request->count = 1;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_request_begin(struct fanin_request *request, struct stream *stream,
                                      const struct fanin_operation *operation, int waits)
{
    enum fanin_status status = fanin_request_check(&stream->terms, operation);

    memset(request, 0, sizeof *request);
    request->stream = stream;
    if (status != FANIN_SUCCESS)
        return status;
    request->flags = operation->flags;
    request->tag = operation->tag;
    request->timeout_ms = operation->timeout_ms;
    request->waits = (uint8_t)waits;
    request->source.memory = (uint8_t *)(uintptr_t)operation->source;
    request->destination.memory = operation->destination;
    fanin_make_message(&stream->terms, operation, &request->message);
    if ((operation->sizes && request->message.row->divided) || operation->flags & FANIN_EXCHANGE_SIZES) {
        status = make_room_for_sizes(request);
        if (status != FANIN_SUCCESS)
            return status;
        if (operation->sizes)
            memcpy(request->sizes, operation->sizes, stream->terms.ranks * sizeof *request->sizes);
    }
    if (operation->flags & FANIN_EXCHANGE_SIZES) {
        request->wanted = request->message;
        request->own_block = operation->block;
        request->has_expectations = operation->sizes != NULL;
        status = place_exchange(request, operation->collective);
    } else {
        if (request->sizes)
            use_sizes(&request->message, request->sizes);
        status = place(request);
    }
    if (status != FANIN_SUCCESS)
        fanin_request_destroy(request);
    return status;
}

/* A rank whose own arguments say otherwise gets an error, and the others what they asked for. */
static int expects(const struct fanin_request *request, const uint64_t *sizes)
{
    uint32_t ranks = request->stream->terms.ranks, rank = request->stream->terms.rank;

    int is_sender = request->wanted.row->brings.who == WHO_ROOT && rank == request->wanted.root;

    if (!is_sender && request->own_block != (uint64_t)FANIN_ANY_SIZE && request->own_block != sizes[rank])
        return 0;
    return !request->has_expectations || !memcmp(request->sizes, sizes, ranks * sizeof *sizes);
}

enum fanin_status fanin_request_expand(struct fanin_request *request)
{
    const uint64_t *sizes = (const uint64_t *)request->exchange->address;

    request->mismatch = !expects(request, sizes);
    memcpy(request->sizes, sizes, request->stream->terms.ranks * sizeof *sizes);
    give_back(request, request->exchange, 0);
    request->exchange = NULL;
    request->message = request->wanted;
    request->wanted.row = NULL;
    use_sizes(&request->message, request->sizes);
    if (request->mismatch)
        request->destination.memory = NULL; /* what comes has no place, and must not be written over anything */
    request->posted = request->taken = 0;
    request->run = request->loaded = (struct run){0};
    return place(request);
}

void fanin_return_spoiled(struct stream *stream)
{
    while (stream->spoiled) {
        struct bounce_buffer *buffer = stream->spoiled;
        stream->spoiled = buffer->next;
        if (!buffer->region)
            free(buffer);
        else
            fanin_return_buffer(stream->context, buffer);
    }
}

void fanin_request_idle(struct fanin_request *request)
{
    uint32_t status = request->status;

    request->status = FANIN_PENDING; /* so that no result is kept */
    fanin_request_release(request, 0);
    request->status = status;
}

enum fanin_status fanin_request_reset(struct fanin_request *request)
{
    fanin_request_idle(request);
    request->posted = request->taken = 0;
    request->run = request->loaded = (struct run){0};
    request->status = FANIN_SUCCESS;
    request->failure = (struct fanin_cqe){0};
    request->done = 0;
    return place(request);
}

void fanin_request_release(struct fanin_request *request, int spoiled)
{
    struct side *source = &request->source, *destination = &request->destination;
    int keeps = !destination->memory && request->status == FANIN_SUCCESS; /* the buffer is the result */

    if (source->buffer && !(keeps && source->buffer == destination->buffer))
        give_back(request, source->buffer, spoiled);
    if (destination->buffer && destination->buffer != source->buffer && !keeps)
        give_back(request, destination->buffer, spoiled);
    source->buffer = NULL;
    if (!keeps)
        destination->buffer = NULL;
    give_back(request, request->exchange, spoiled);
    request->exchange = NULL;
    for (uint32_t part = 0; part < request->window_length; part++)
        give_back(request, request->window[part], spoiled);
    request->window_length = 0;
}

void fanin_request_destroy(struct fanin_request *request)
{
    struct side *destination = &request->destination;
    int is_allocated = destination->buffer && request->message.destination.lkey == FANIN_LKEY_PROCESS;

    fanin_request_release(request, 0);
    if (is_allocated && !request->stream->context)
        free(destination->buffer);
    else
        give_back(request, destination->buffer, 0);
    destination->buffer = NULL;
    if (request->sizes != request->few)
        free(request->sizes);
    request->sizes = NULL;
}
