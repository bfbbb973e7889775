#include "calls/buffers.h"
#include "comm/device.h"
#include <stdlib.h>

/* Whether a result may go directly to its place: the library allows overlaps block on block only. On a side with all
 * blocks the rank's own one lies behind those of lower ranks. */
static int may_overlap(const struct decoded_call *decoded, const struct prepared_call *prepared, uint32_t rank)
{
    const struct dense_memory *source = &prepared->source, *destination = &prepared->destination;
    uint64_t before = decoded->brings_all != decoded->gets_all ? shim_size_of_blocks(decoded, rank) : 0;

    if (source->owner != OF_PROGRAM || !source->bytes || !destination->bytes ||
        destination->address >= source->address + source->bytes ||
        source->address >= destination->address + destination->bytes)
        return 1;
    return source->address + (decoded->brings_all ? before : 0) ==
           destination->address + (decoded->gets_all ? before : 0);
}

/* Memory for a copy. A job that has ended needs none, since its operations fail at once. */
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

/* Find the memory of one side. all: it has all blocks, not only the rank's own. A copy has room for the devices' data
 * and the program's. */
static enum fanin_status place(const struct decoded_call *decoded, const struct elements *elements, int all,
                               struct fanin_communicator *job, struct prepared_call *prepared,
                               struct dense_memory *memory)
{
    uint64_t needed = shim_size_of_block(decoded, fanin_rank(job));

    if (all)
        needed = shim_size_of_blocks(decoded, decoded->blocks);
    memory->bytes = shim_bytes_of(elements);
    if (!elements->blocks || !(needed | memory->bytes))
        return FANIN_SUCCESS;
    prepared->mismatched |= memory->bytes != needed;
    memory->address = memory->bytes == needed ? shim_dense_address(elements) : NULL;
    return memory->address ? FANIN_SUCCESS : find_memory(memory, job, needed > memory->bytes ? needed : memory->bytes);
}

/* A table is for blocks of different sizes only. */
static enum fanin_status fill_sizes(const struct decoded_call *decoded, struct prepared_call *prepared)
{
    prepared->sizes = NULL;
    if (decoded->block_sizes == EQUAL_BLOCKS)
        return FANIN_SUCCESS;
    prepared->sizes = malloc(decoded->blocks * sizeof *prepared->sizes);
    if (!prepared->sizes)
        return FANIN_NO_RESOURCES;
    for (uint32_t block = 0; block < decoded->blocks; block++)
        prepared->sizes[block] = shim_size_of_block(decoded, block);
    return FANIN_SUCCESS;
}

enum fanin_status shim_prepare(const struct decoded_call *decoded, struct fanin_communicator *job,
                               struct prepared_call *prepared)
{
    struct dense_memory *source = &prepared->source, *destination = &prepared->destination;
    enum fanin_status status = fill_sizes(decoded, prepared);

    prepared->mismatched = 0;
    prepared->operation = decoded->operation;
    *source = *destination = (struct dense_memory){0};
    /* Only this rank knows that its datatype can not be packed: end the job, so that the others do not wait. */
    if (!shim_is_convertible(&decoded->source) || !shim_is_convertible(&decoded->destination))
        status = FANIN_NO_RESOURCES;
    if (status == FANIN_SUCCESS)
        status = place(decoded, &decoded->source, decoded->brings_all, job, prepared, source);
    if (status == FANIN_SUCCESS && source->owner != OF_PROGRAM &&
        !shim_copy(&decoded->source, source->address, COLLECT))
        status = FANIN_NO_RESOURCES;
    if (status == FANIN_SUCCESS)
        status = place(decoded, &decoded->destination, decoded->gets_all, job, prepared, destination);
    if (status == FANIN_SUCCESS && destination->owner == OF_PROGRAM && !may_overlap(decoded, prepared, fanin_rank(job)))
        status = find_memory(destination, job, destination->bytes);
    prepared->operation.sizes = prepared->sizes;
    prepared->operation.source = source->address;
    prepared->operation.destination = destination->address;
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
    /* After a failure a device may still access the copies, so they are never freed. */
    int reusable = !started || status == FANIN_SUCCESS;

    if (status == FANIN_SUCCESS && prepared->mismatched)
        status = FANIN_OP_MISMATCH;
    if (status == FANIN_SUCCESS && prepared->destination.owner != OF_PROGRAM &&
        !shim_copy(&decoded->destination, prepared->destination.address, DISTRIBUTE))
        status = FANIN_NO_RESOURCES;
    if (reusable) {
        give_back(&prepared->source);
        give_back(&prepared->destination);
    }
    free(prepared->sizes);
    return status;
}
