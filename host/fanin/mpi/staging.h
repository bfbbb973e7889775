/* Registered memory that stands in for a program's ordinary memory, as in the host library's staging.py: a device reads
 * it in place, and ordinary memory by a system call for each run of segments.
 */
#ifndef FANIN_MPI_STAGING_H
#define FANIN_MPI_STAGING_H
#include "fanin.h"

struct area {
    struct area *next;
    uint8_t *address;
    struct region *region;     /* that it was cut from */
    uint32_t lkey;
    uint32_t order;            /* it has 1 << order bytes */
};

void fanin_staging_begin(struct fanin_context *context);
/* An area of at least so many bytes; NULL if they are too many, or if there is no more room. */
struct area *fanin_lend(uint64_t bytes);
void fanin_take_back(struct area *area);
#endif
