/* Registered memory that stands in for ordinary memory: a device accesses it in place, and ordinary memory by a system
 * call for each run of segments. */
#ifndef FANIN_BOUNCE_BUFFERS_H
#define FANIN_BOUNCE_BUFFERS_H
#include "device/connection.h"

struct bounce_buffer {
    struct bounce_buffer *next;
    uint8_t *address;
    struct bounce_region *region; /* it was cut from this; NULL: ordinary memory */
    uint32_t lkey;
};

/* A buffer of at least `length` bytes; NULL: too many, or no room. */
struct bounce_buffer *fanin_borrow_buffer(struct fanin_context *context, uint64_t length);
/* The same, or else one of ordinary memory; NULL: no memory. */
struct bounce_buffer *fanin_obtain_buffer(struct fanin_context *context, uint64_t length);
void fanin_return_buffer(struct fanin_context *context, struct bounce_buffer *buffer);
void fanin_free_bounce_buffers(struct fanin_context *context);
#endif
