/* The elements of a buffer of MPI, and their copies in memory without gaps. */
#ifndef FANIN_MPI_ELEMENTS_H
#define FANIN_MPI_ELEMENTS_H
#include "abi/call.h"

struct type_facts {
    int64_t size;              /* bytes of data of an element, without gaps */
    intptr_t extent;           /* bytes from one element to the next */
    int dense;                 /* an array of elements has no gaps, and packing keeps the order of its bytes */
    int gap_start, gap;        /* of a pair in a result: bytes before its gap, and of it. Only devices fill it */
};

/* A buffer as a row of blocks; no blocks: the call has no such buffer. */
struct elements {
    uint8_t *address;
    handle type;
    struct type_facts facts;
    int blocks;
    struct vector counts, offsets; /* without offsets blocks lie one after the other */
};

/* Whether a message may have elements of a type: the handle is one of a datatype, which is committed. */
int shim_is_usable(handle type);

/* Returns 0 if no message may have such elements. */
int shim_type_facts(handle type, struct type_facts *facts);

/* One block: where it is, and its bytes. */
uint8_t *shim_block_address(const struct elements *elements, int block);
uint64_t shim_block_bytes(const struct elements *elements, int block);
/* Bytes of all blocks. */
uint64_t shim_bytes_of(const struct elements *elements);

/* The address of the first block, if all blocks lie one after the other without gaps; else NULL. */
uint8_t *shim_dense_address(const struct elements *elements);

/* Whether the MPI can copy the elements. Without large counts it can not, if one element has 2 GiB or more. */
int shim_is_convertible(const struct elements *elements);

/* Copy all elements to memory without gaps, block by block, or back from there. Returns 0 if the MPI can not. */
enum direction { COLLECT, DISTRIBUTE };
int shim_copy(const struct elements *elements, uint8_t *memory, enum direction direction);

/* Whether MPI_Pack gives the bytes of the elements and nothing else. All known MPIs do so. */
int shim_pack_adds_nothing(void);
#endif
