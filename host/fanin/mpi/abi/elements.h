/* Where the elements of a buffer lie: what its datatype says, and how they are brought together and put back. */
#ifndef FANIN_MPI_ELEMENTS_H
#define FANIN_MPI_ELEMENTS_H
#include "abi/call.h"

struct type_facts {
    int64_t size;              /* bytes of data of an element: equal on all ranks that name it by other types */
    intptr_t extent;           /* bytes from one to the next */
    int dense;                 /* the elements of an array of them are its bytes, in order */
};

/* A buffer as a row of blocks. No blocks: there is none. */
struct elements {
    uint8_t *address;
    handle type;
    struct type_facts facts;
    int blocks;
    int64_t count;             /* of each block, where there are no counts */
    struct vector counts, offsets;
};

/* 0 where the handle is no datatype. */
int shim_type_facts(handle type, struct type_facts *facts);

uint64_t shim_block_bytes(const struct elements *elements, int block);
/* Bytes of all blocks. */
uint64_t shim_bytes_of(const struct elements *elements);

/* Whether all blocks lie one after the other, without gaps, from the address that is returned; NULL: they do not. */
uint8_t *shim_dense_address(const struct elements *elements);

/* Whether the MPI can bring them together: without large counts not where one element has 2 GiB and more. */
int shim_is_convertible(const struct elements *elements);

/* Copy all elements, block by block, to (from) memory without gaps. */
void shim_collect(const struct elements *elements, uint8_t *memory);
void shim_distribute(const struct elements *elements, const uint8_t *memory);

/* Whether MPI_Pack gives the bytes of the elements and nothing else, as all families do: checked once. */
int shim_packs_plainly(void);
#endif
