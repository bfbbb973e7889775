/* The memory of a side of an operation: the program's own, or what stands in for it. */
#include "operation.h"
#include <stdlib.h>

uint64_t fanin_bytes_of(const struct elements *elements)
{
    uint64_t bytes = 0;

    for (int block = 0; block < elements->blocks; block++)
        bytes += fanin_block_bytes(elements, block);
    return bytes;
}

int fanin_stand_in(struct side *side)
{
    side->copied = 1;
    side->area = fanin_lend(side->bytes);
    side->allocated = !side->area;
    side->memory = side->area ? side->area->address : malloc(side->bytes);
    return side->memory != NULL;
}

int fanin_place_source(struct side *side)
{
    uint8_t *dense = fanin_dense_address(&side->elements);

    side->bytes = fanin_bytes_of(&side->elements);
    side->memory = dense;
    if (!side->bytes || (dense && side->bytes <= FANIN_MAX_INLINE))
        return 1; /* it goes into the request, or nowhere */
    side->area = fanin_lend(side->bytes);
    if (side->area)
        side->memory = side->area->address;
    else if (!dense && !fanin_stand_in(side))
        return 0;
    if (side->memory != dense)
        fanin_collect(&side->elements, side->memory);
    return 1;
}

/* After a failure a device may still write: memory that it was given must never be used for anything else. */
void fanin_release_side(struct side *side, int spoiled)
{
    if (spoiled || side->shared)
        return;
    if (side->area)
        fanin_take_back(side->area);
    else if (side->allocated)
        free(side->memory);
}
