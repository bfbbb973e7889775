/* PMPI_Pack and PMPI_Unpack convert derived datatypes, so that these mean here what they mean to the MPI. */
#include "abi/elements.h"
#include "abi/pmpi.h"
#include <limits.h>
#include <string.h>

#define PACKED_AT_ONCE (1 << 30) /* bytes: MPI_Pack counts in int */

/* How a type was made: the numbers of arguments of its constructor. */
struct envelope {
    int64_t integers, addresses, large_counts, types;
    int combiner;
};

/* Of a type with large counts MPI_Type_get_envelope would be an error. */
static int read_envelope(handle type, struct envelope *envelope)
{
    int integers, addresses, types, code;

    if (pmpi.Type_get_envelope_c)
        return !pmpi.Type_get_envelope_c(type, &envelope->integers, &envelope->addresses, &envelope->large_counts,
                                         &envelope->types, &envelope->combiner);
    code = pmpi.Type_get_envelope(type, &integers, &addresses, &types, &envelope->combiner);
    envelope->integers = integers;
    envelope->addresses = addresses;
    envelope->large_counts = 0;
    envelope->types = types;
    return !code;
}

/* The type that another consists of, if it was made of one type with one count or none. The caller frees a derived
 * one. */
static int read_inner(handle type, const struct envelope *envelope, handle *inner)
{
    int count, code;
    int64_t large_count;
    intptr_t unused[1];

    if (envelope->integers + envelope->large_counts > 1 || envelope->addresses || envelope->types != 1)
        return 0;
    *inner = 0;
    if (pmpi.Type_get_envelope_c)
        code = pmpi.Type_get_contents_c(type, envelope->integers, 0, envelope->large_counts, 1, &count, unused,
                                        &large_count, inner);
    else
        code = pmpi.Type_get_contents(type, (int)envelope->integers, 0, 1, &count, unused, inner);
    *inner = load_handle(inner);
    return !code;
}

/* Named types without gaps are dense, and so are rows of dense types. Other types may have their parts in any
 * order. */
static int is_dense(handle type)
{
    struct envelope envelope;
    intptr_t lower, extent;
    handle inner;
    int size, dense;

    if (!read_envelope(type, &envelope))
        return 0;
    if (envelope.combiner == shim_abi->combiner_named)
        return !pmpi.Type_size(type, &size) && !pmpi.Type_get_extent(type, &lower, &extent) && lower == 0 &&
               extent == size;
    if (envelope.combiner != shim_abi->combiner_dup && envelope.combiner != shim_abi->combiner_contiguous)
        return 0;
    if (!read_inner(type, &envelope, &inner))
        return 0;
    dense = is_dense(inner);
    if (!shim_datatype(inner) && read_envelope(inner, &envelope) &&
        envelope.combiner != shim_abi->combiner_named)
        pmpi.Type_free(&inner);
    return dense;
}

int shim_type_facts(handle type, struct type_facts *facts)
{
    const struct datatype *predefined = shim_datatype(type);
    intptr_t lower;
    int size;

    if (predefined && predefined->kind != KIND_PAIR) {
        *facts = (struct type_facts){predefined->bytes, predefined->bytes, 1};
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

static int64_t count_of(const struct elements *elements, int block)
{
    return elements->counts.items ? item(elements->counts, block) : elements->count;
}

/* Without offsets blocks lie one after the other, in extents. */
static uint8_t *block_address(const struct elements *elements, int block)
{
    int64_t offset = elements->offsets.items ? item(elements->offsets, block) : 0;

    if (!elements->offsets.items)
        for (int i = 0; i < block; i++)
            offset += count_of(elements, i);
    return elements->address + offset * elements->facts.extent;
}

uint64_t shim_block_bytes(const struct elements *elements, int block)
{
    return (uint64_t)(count_of(elements, block) * elements->facts.size);
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
        uint8_t *address = block_address(elements, block);
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

/* Pack (unpack) one block with large counts. */
static void convert_at_once(const struct elements *elements, int block, uint8_t *memory, int collect)
{
    int64_t count = count_of(elements, block), bytes = count * elements->facts.size, position = 0;
    uint8_t *address = block_address(elements, block);
    handle world = shim_handle(COMM_WORLD);

    if (collect)
        pmpi.Pack_c(address, count, elements->type, memory, bytes, &position, world);
    else
        pmpi.Unpack_c(memory, bytes, &position, address, count, elements->type, world);
}

/* Pack (unpack) one block in parts whose bytes an int can count. */
static void convert_in_parts(const struct elements *elements, int block, uint8_t *memory, int collect)
{
    const struct type_facts *facts = &elements->facts;
    int64_t left = count_of(elements, block);
    int64_t most = facts->size && facts->size < PACKED_AT_ONCE ? PACKED_AT_ONCE / facts->size : 1;
    uint8_t *address = block_address(elements, block);

    while (left > 0 && facts->size) {
        int count = (int)(left < most ? left : most), position = 0, bytes = (int)(count * facts->size);
        if (collect)
            pmpi.Pack(address, count, elements->type, memory, bytes, &position, shim_handle(COMM_WORLD));
        else
            pmpi.Unpack(memory, bytes, &position, address, count, elements->type, shim_handle(COMM_WORLD));
        left -= count;
        address += count * facts->extent;
        memory += bytes;
    }
}

static void copy(const struct elements *elements, uint8_t *memory, int collect)
{
    for (int block = 0; block < elements->blocks; block++) {
        uint64_t bytes = shim_block_bytes(elements, block);
        if (!bytes)
            continue;
        if (!elements->facts.dense && pmpi.Pack_c)
            convert_at_once(elements, block, memory, collect);
        else if (!elements->facts.dense)
            convert_in_parts(elements, block, memory, collect);
        else if (collect)
            memcpy(memory, block_address(elements, block), bytes);
        else
            memcpy(block_address(elements, block), memory, bytes);
        memory += bytes;
    }
}

void shim_collect(const struct elements *elements, uint8_t *memory)
{
    copy(elements, memory, 1);
}

void shim_distribute(const struct elements *elements, const uint8_t *memory)
{
    copy(elements, (uint8_t *)memory, 0);
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
