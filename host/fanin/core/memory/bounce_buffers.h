/* Registered memory that stands in for ordinary memory of the program. A device reads and writes it in place; it
 * reaches ordinary memory by a system call for each run of segments.
 */
#ifndef FANIN_BOUNCE_BUFFERS_H
#define FANIN_BOUNCE_BUFFERS_H
#include "device/connection.h"

struct bounce_buffer {
    struct bounce_buffer *next;
    uint8_t *address;
    struct bounce_region *region; /* that it was cut from; NULL: ordinary memory */
    uint32_t lkey;
};

/* A buffer of at least so many bytes. NULL: they are too many, or there is no more room. */
struct bounce_buffer *fanin_borrow_buffer(struct fanin_context *context, uint64_t length);
/* Then one of ordinary memory, in the shape of the others. NULL: there is neither. */
struct bounce_buffer *fanin_obtain_buffer(struct fanin_context *context, uint64_t length);
void fanin_return_buffer(struct fanin_context *context, struct bounce_buffer *buffer);
void fanin_free_bounce_buffers(struct fanin_context *context);
#endif
