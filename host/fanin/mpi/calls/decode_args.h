#ifndef FANIN_MPI_DECODE_ARGS_H
#define FANIN_MPI_DECODE_ARGS_H
#include "abi/elements.h"
#include "fanin.h"
#include "report.h"

/* Which buffer has the sizes of the blocks. */
enum block_sizes { EQUAL_BLOCKS, BLOCKS_OF_SOURCE, BLOCKS_OF_DESTINATION };

struct decoded_call {
    struct fanin_operation operation; /* without memory and sizes, which shim_prepare adds */
    uint32_t blocks;           /* of the message */
    enum block_sizes block_sizes;
    int brings_all, gets_all;  /* a rank brings (gets) all blocks, not only its own */
    struct elements source, destination; /* no blocks: this rank brings (gets) nothing */
};

/* Decode a call of rank `rank` of `ranks`. Returns NO_REASON, or why devices can not do it. The MPI reports arguments
 * that make no sense. */
enum reason shim_decode_args(const struct call *call, int rank, int ranks, struct decoded_call *decoded);

/* Bytes of a block, by this rank's arguments. */
static inline uint64_t shim_size_of_block(const struct decoded_call *decoded, uint32_t block)
{
    if (decoded->block_sizes == EQUAL_BLOCKS)
        return decoded->operation.block;
    return shim_block_bytes(decoded->block_sizes == BLOCKS_OF_SOURCE ? &decoded->source : &decoded->destination,
                            (int)block);
}

/* Bytes of the first `blocks` blocks, by this rank's arguments. */
static inline uint64_t shim_size_of_blocks(const struct decoded_call *decoded, uint32_t blocks)
{
    uint64_t bytes = 0;

    if (decoded->block_sizes == EQUAL_BLOCKS)
        return decoded->operation.block * blocks;
    for (uint32_t block = 0; block < blocks; block++)
        bytes += shim_size_of_block(decoded, block);
    return bytes;
}
#endif
