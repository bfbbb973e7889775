/* The elements of an MPI buffer, and their copies without gaps. */
#ifndef FANIN_MPI_ELEMENTS_H
#define FANIN_MPI_ELEMENTS_H
#include "abi/call.h"

struct type_facts {
    int64_t size;              /* bytes of data of an element, without gaps */
    intptr_t extent;           /* bytes from one element to the next */
    int dense;                 /* an array of elements has no gaps, and packing keeps the order of its bytes */
    int gap_start, gap;        /* of a pair in a result: bytes before its gap, and of the gap */
};

/* A buffer as a sequence of blocks; no blocks: no buffer. */
struct elements {
    uint8_t *address;
    handle type;
    struct type_facts facts;
    int blocks;
    struct vector counts, offsets; /* without offsets blocks are consecutive */
};

/* Whether the handle is a committed datatype. */
int shim_is_usable(handle type);

/* Returns 0 for a type that is not usable. */
int shim_type_facts(handle type, struct type_facts *facts);

/* Address and bytes of a block. */
uint8_t *shim_block_address(const struct elements *elements, int block);
uint64_t shim_block_bytes(const struct elements *elements, int block);
uint64_t shim_bytes_of(const struct elements *elements);

/* The address of the first block if there are no gaps; otherwise NULL. */
uint8_t *shim_dense_address(const struct elements *elements);

/* Whether the MPI can copy the elements: without large counts, only elements below 2 GiB. */
int shim_is_convertible(const struct elements *elements);

/* Copy all elements to memory without gaps, or back from there. Returns 0 on failure. */
enum direction { COLLECT, DISTRIBUTE };
int shim_copy(const struct elements *elements, uint8_t *memory, enum direction direction);

/* Whether MPI_Pack gives the bytes of the elements and nothing else. All known MPIs do so. */
int shim_pack_adds_nothing(void);
#endif
