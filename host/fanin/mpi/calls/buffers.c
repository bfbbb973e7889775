#include "calls/buffers.h"
#include "comm/device.h"
#include <stdlib.h>

/* Whether a rank has all blocks of the message, rather than its own block. */
static int brings_all(uint32_t collective)
{
    return collective != FANIN_ALLGATHER && collective != FANIN_ALLGATHERV && collective != FANIN_GATHER &&
           collective != FANIN_GATHERV;
}

static int gets_all(uint32_t collective)
{
    return collective != FANIN_REDUCE_SCATTER && collective != FANIN_SCATTER && collective != FANIN_SCATTERV;
}

static uint64_t side_bytes(const struct decoded_call *decoded, uint32_t rank, int all)
{
    return all ? shim_message_bytes(decoded) : shim_size_of_block(decoded, rank);
}

/* Bytes of the blocks before that of this rank, where they lie before it in memory. */
static uint64_t bytes_before(const struct decoded_call *decoded, uint32_t rank, int all)
{
    uint64_t bytes = 0;

    for (uint32_t block = 0; all && block < rank && block < decoded->blocks; block++)
        bytes += shim_size_of_block(decoded, block);
    return bytes;
}

/* Whether a result may go directly to its place: the library allows overlaps only block on block. */
static int may_overlap(const struct decoded_call *decoded, const struct prepared_call *prepared, uint32_t rank)
{
    const struct dense_memory *source = &prepared->source, *destination = &prepared->destination;
    uint32_t collective = decoded->operation.collective;

    if (source->owner != OF_PROGRAM || !source->bytes || !destination->bytes ||
        destination->address >= source->address + source->bytes ||
        source->address >= destination->address + destination->bytes)
        return 1;
    return source->address + bytes_before(decoded, rank, brings_all(collective) && !gets_all(collective)) ==
           destination->address + bytes_before(decoded, rank, gets_all(collective) && !brings_all(collective));
}

/* Memory for a copy. A job that has ended needs none: its operations fail before a device sees them. */
static enum fanin_status find_memory(struct dense_memory *memory, struct fanin_communicator *job, uint64_t bytes)
{
    struct fanin_communicator_state state;

    fanin_communicator_state(job, &state);
    if (state.ended.status != FANIN_SUCCESS)
        return state.ended.status;
    memory->address = fanin_borrow(shim_device.context, bytes);
    memory->owner = memory->address ? BORROWED : ALLOCATED;
    if (!memory->address)
        memory->address = malloc(bytes);
    return memory->address ? FANIN_SUCCESS : FANIN_NO_RESOURCES;
}

/* needed: bytes by the sizes of the message. A copy has room for what the devices move and for what the program
 * has. */
static enum fanin_status place(struct dense_memory *memory, const struct elements *elements, uint64_t needed,
                               int copied, struct fanin_communicator *job)
{
    uint64_t present = memory->bytes;

    if (!elements->blocks || !(needed | present))
        return FANIN_SUCCESS;
    memory->address = !copied && present == needed ? shim_dense_address(elements) : NULL;
    return memory->address ? FANIN_SUCCESS : find_memory(memory, job, needed > present ? needed : present);
}

static enum fanin_status place_source(const struct decoded_call *decoded, struct fanin_communicator *job,
                                      struct prepared_call *prepared)
{
    uint64_t needed = side_bytes(decoded, fanin_rank(job), brings_all(decoded->operation.collective));
    enum fanin_status status;

    prepared->source.bytes = shim_bytes_of(&decoded->source);
    status = place(&prepared->source, &decoded->source, needed, 0, job);
    prepared->mismatched |= decoded->source.blocks && prepared->source.bytes != needed;
    if (status == FANIN_SUCCESS && prepared->source.owner != OF_PROGRAM)
        shim_collect(&decoded->source, prepared->source.address);
    return status;
}

static enum fanin_status place_destination(const struct decoded_call *decoded, struct fanin_communicator *job,
                                           struct prepared_call *prepared)
{
    struct dense_memory *destination = &prepared->destination;
    uint32_t rank = fanin_rank(job);
    uint64_t needed = side_bytes(decoded, rank, gets_all(decoded->operation.collective));
    enum fanin_status status;

    destination->bytes = shim_bytes_of(&decoded->destination);
    prepared->mismatched |= decoded->destination.blocks && destination->bytes != needed;
    if (decoded->discards_result)
        return FANIN_SUCCESS;
    status = place(destination, &decoded->destination, needed, 0, job);
    if (status == FANIN_SUCCESS && destination->owner == OF_PROGRAM && !may_overlap(decoded, prepared, rank))
        status = place(destination, &decoded->destination, needed, 1, job);
    return status;
}

/* Only blocks of different sizes need a table. */
static enum fanin_status fill_sizes(const struct decoded_call *decoded, struct prepared_call *prepared)
{
    prepared->sizes = NULL;
    if (decoded->block_sizes == EQUAL_BLOCKS)
        return FANIN_SUCCESS;
    prepared->sizes = decoded->blocks <= FEW_BLOCKS ? prepared->few : malloc(decoded->blocks * sizeof *prepared->sizes);
    if (!prepared->sizes)
        return FANIN_NO_RESOURCES;
    for (uint32_t block = 0; block < decoded->blocks; block++)
        prepared->sizes[block] = shim_size_of_block(decoded, block);
    return FANIN_SUCCESS;
}

enum fanin_status shim_prepare(const struct decoded_call *decoded, struct fanin_communicator *job,
                               struct prepared_call *prepared)
{
    enum fanin_status status = fill_sizes(decoded, prepared);

    prepared->mismatched = 0;
    prepared->operation = decoded->operation;
    prepared->source = prepared->destination = (struct dense_memory){0};
    /* Only this rank knows that the MPI can not pack its datatype. It ends the job, so that the others do not wait. */
    if (!shim_is_convertible(&decoded->source) || !shim_is_convertible(&decoded->destination))
        status = FANIN_NO_RESOURCES;
    if (status == FANIN_SUCCESS)
        status = place_source(decoded, job, prepared);
    if (status == FANIN_SUCCESS)
        status = place_destination(decoded, job, prepared);
    prepared->operation.sizes = prepared->sizes;
    prepared->operation.source = prepared->source.address;
    prepared->operation.destination = prepared->destination.address;
    return status;
}

static void give_back(const struct dense_memory *memory)
{
    if (memory->owner == BORROWED)
        fanin_return(shim_device.context, memory->address);
    else if (memory->owner == ALLOCATED)
        free(memory->address);
}

enum fanin_status shim_conclude(const struct decoded_call *decoded, struct prepared_call *prepared, int started,
                                enum fanin_status status)
{
    /* After a failure a device may still read and write the copies: they are kept for good. */
    int reusable = !started || status == FANIN_SUCCESS;

    if (status == FANIN_SUCCESS && prepared->mismatched)
        status = FANIN_OP_MISMATCH;
    if (status == FANIN_SUCCESS && prepared->destination.owner != OF_PROGRAM)
        shim_distribute(&decoded->destination, prepared->destination.address);
    if (reusable) {
        give_back(&prepared->source);
        give_back(&prepared->destination);
    }
    if (prepared->sizes != prepared->few)
        free(prepared->sizes);
    return status;
}
