/* PMPI_Pack and PMPI_Unpack convert derived datatypes, with the MPI's own meaning. */
#include "abi/elements.h"
#include "abi/mpi_progress.h"
#include "abi/pmpi.h"
#include <limits.h>
#include <string.h>

#define PACKED_AT_ONCE (1 << 30) /* bytes: MPI_Pack counts in int */

/* -1: not a type. MPI_Type_get_envelope would fail for a type with large counts. */
static int combiner_of(handle type)
{
    int64_t large_numbers[4];
    int numbers[3], combiner, code;

    if (pmpi.Type_get_envelope_c)
        code = pmpi.Type_get_envelope_c(type, &large_numbers[0], &large_numbers[1], &large_numbers[2],
                                        &large_numbers[3], &combiner);
    else
        code = pmpi.Type_get_envelope(type, &numbers[0], &numbers[1], &numbers[2], &combiner);
    return code ? -1 : combiner;
}

/* The type inside a duplicate or a contiguous type, or 0. The caller frees a derived one. */
static handle inner_of(handle type)
{
    int64_t large_count;
    intptr_t address;
    handle inner = 0;
    int count, code;

    if (pmpi.Type_get_contents_c)
        code = pmpi.Type_get_contents_c(type, 1, 0, 1, 1, &count, &address, &large_count, &inner);
    else
        code = pmpi.Type_get_contents(type, 1, 0, 1, &count, &address, &inner);
    return code ? 0 : load_handle(&inner);
}

/* Whether an inner type must be freed: it is neither a predefined one nor one of Fortran's. */
static int is_derived(handle type)
{
    int combiner = combiner_of(type);

    return combiner != shim_abi->combiner_named &&
           (combiner < shim_abi->combiner_f90_first || combiner > shim_abi->combiner_f90_last);
}

static int find_facts(handle type, struct type_facts *facts);

/* Whether a type without gaps at its ends has none inside: a named type, or a contiguous one of dense elements. Other
 * types may have their parts in any order. */
static int is_dense(handle type)
{
    int combiner = combiner_of(type), dense;
    struct type_facts facts;
    handle inner;

    if (combiner != shim_abi->combiner_dup && combiner != shim_abi->combiner_contiguous)
        return combiner == shim_abi->combiner_named;
    inner = inner_of(type);
    dense = find_facts(inner, &facts) && facts.dense;
    if (inner && !shim_datatype(inner) && is_derived(inner))
        pmpi.Type_free(&inner);
    return dense;
}

/* Also for inner types, which need not be committed. */
static int find_facts(handle type, struct type_facts *facts)
{
    const struct datatype *predefined = shim_datatype(type);
    intptr_t lower;
    int size;

    *facts = (struct type_facts){0};
    if (predefined && predefined->kind != KIND_PAIR) {
        facts->size = facts->extent = predefined->bytes;
        facts->dense = 1;
        return 1;
    }
    if (!type || type == shim_handle(TYPE_NULL) || pmpi.Type_get_extent(type, &lower, &facts->extent))
        return 0;
    if (pmpi.Type_size_x) {
        if (pmpi.Type_size_x(type, &facts->size))
            return 0;
    } else {
        if (pmpi.Type_size(type, &size))
            return 0;
        facts->size = size;
    }
    facts->dense = lower == 0 && facts->extent == facts->size && is_dense(type);
    return facts->size >= 0;
}

/* Packs 0 elements: tests the type without an error in the program. */
int shim_is_usable(handle type)
{
    uint8_t nothing[1];
    int position = 0;

    return shim_datatype(type) ||
           (type && type != shim_handle(TYPE_NULL) &&
            !pmpi.Pack(nothing, 0, type, nothing, sizeof nothing, &position, shim_quiet_communicator()));
}

int shim_type_facts(handle type, struct type_facts *facts)
{
    return shim_is_usable(type) && find_facts(type, facts);
}

uint8_t *shim_block_address(const struct elements *elements, int block)
{
    int64_t offset = elements->offsets.items ? item(elements->offsets, block) : block * elements->counts.each;

    for (int i = 0; !elements->offsets.items && elements->counts.items && i < block; i++)
        offset += item(elements->counts, i);
    return elements->address + offset * elements->facts.extent;
}

uint64_t shim_block_bytes(const struct elements *elements, int block)
{
    return (uint64_t)(item(elements->counts, block) * elements->facts.size);
}

uint64_t shim_bytes_of(const struct elements *elements)
{
    uint64_t bytes = 0;

    if (!elements->counts.items)
        return (uint64_t)elements->blocks * shim_block_bytes(elements, 0);
    for (int block = 0; block < elements->blocks; block++)
        bytes += shim_block_bytes(elements, block);
    return bytes;
}

uint8_t *shim_dense_address(const struct elements *elements)
{
    uint8_t *start = NULL, *end = NULL;

    if (!elements->facts.dense)
        return NULL;
    if (!elements->offsets.items)
        return elements->address;
    for (int block = 0; block < elements->blocks; block++) {
        uint8_t *address = shim_block_address(elements, block);
        uint64_t bytes = shim_block_bytes(elements, block);
        if (!bytes)
            continue;
        if (start && address != end)
            return NULL;
        start = start ? start : address;
        end = address + bytes;
    }
    return start ? start : elements->address;
}

int shim_is_convertible(const struct elements *elements)
{
    return !elements->blocks || elements->facts.dense || elements->facts.size <= INT_MAX || pmpi.Pack_c != NULL;
}

/* Pack (unpack) consecutive elements with `bytes` of data, in parts whose size an int can hold. 0: it failed. */
static int convert(const struct elements *elements, uint8_t *address, uint64_t bytes, uint8_t *memory,
                   enum direction direction)
{
    const struct type_facts *facts = &elements->facts;
    handle type = elements->type, quiet = shim_quiet_communicator();
    int64_t left = (int64_t)bytes / facts->size, count, large_position = 0;
    int failed = 0;
    int64_t most = pmpi.Pack_c ? left : facts->size < PACKED_AT_ONCE ? PACKED_AT_ONCE / facts->size : 1;

    for (; left && !failed; left -= count, address += count * facts->extent, memory += count * facts->size) {
        int position = 0;
        count = left < most ? left : most;
        if (pmpi.Pack_c && direction == COLLECT)
            failed = pmpi.Pack_c(address, count, type, memory, count * facts->size, &large_position, quiet);
        else if (pmpi.Pack_c)
            failed = pmpi.Unpack_c(memory, count * facts->size, &large_position, address, count, type, quiet);
        else if (direction == COLLECT)
            failed = pmpi.Pack(address, (int)count, type, memory, (int)(count * facts->size), &position, quiet);
        else
            failed = pmpi.Unpack(memory, (int)(count * facts->size), &position, address, (int)count, type, quiet);
    }
    return !failed;
}

/* Copy results without their gaps. */
static void distribute_pairs(const struct elements *elements, uint8_t *address, uint64_t bytes, const uint8_t *memory)
{
    size_t extent = (size_t)elements->facts.extent, start = (size_t)elements->facts.gap_start;
    size_t end = start + (size_t)elements->facts.gap;

    for (uint64_t at = 0; at < bytes; at += extent) {
        memcpy(address + at, memory + at, start);
        memcpy(address + at + end, memory + at + end, extent - end);
    }
}

/* Without offsets all blocks are consecutive. */
int shim_copy(const struct elements *elements, uint8_t *memory, enum direction direction)
{
    int done = 1, rows = elements->offsets.items ? elements->blocks : 1;

    for (int row = 0; row < rows; row++) {
        uint64_t bytes = elements->offsets.items ? shim_block_bytes(elements, row) : shim_bytes_of(elements);
        uint8_t *address = shim_block_address(elements, row);
        if (!bytes)
            continue;
        if (elements->facts.gap)
            distribute_pairs(elements, address, bytes, memory);
        else if (!elements->facts.dense)
            done &= convert(elements, address, bytes, memory, direction);
        else if (direction == COLLECT)
            memcpy(memory, address, bytes);
        else
            memcpy(address, memory, bytes);
        memory += bytes;
    }
    return done;
}

int shim_pack_adds_nothing(void)
{
    struct {
        short value;
        int index;
    } pair = {0x1234, 0x56789abc};
    uint8_t packed[64], expected[6];
    int position = 0;

    memcpy(expected, &pair.value, 2);
    memcpy(expected + 2, &pair.index, 4);
    return !pmpi.Pack(&pair, 1, shim_handle(TYPE_SHORT_INT), packed, sizeof packed, &position,
                      shim_handle(COMM_WORLD)) &&
           position == sizeof expected && !memcmp(packed, expected, sizeof expected);
}
