#ifndef FANIN_LAYOUT_H
#define FANIN_LAYOUT_H
#include "device/connection.h"

/* Whether the rings of a region lie inside the mapping. */
int fanin_rings_fit(const struct fanin_attach_reply *limits);

/* The ring, or NULL if `index` is not below `count`. */
static inline struct fanin_ring *ring_at(const struct fanin_context *context, uint32_t index, uint32_t count,
                                         uint32_t offset, uint32_t stride)
{
    if (!context->region || index >= count)
        return NULL;
    return (void *)(context->region + offset + (size_t)index * stride);
}

static inline struct fanin_ring *send_ring(const struct fanin_context *context, uint32_t qp)
{
    return ring_at(context, qp, context->limits.max_qp, context->limits.sq_offset, context->limits.sq_stride);
}

static inline struct fanin_ring *completion_ring(const struct fanin_context *context, uint32_t cq)
{
    return ring_at(context, cq, context->limits.max_cq, context->limits.cq_offset, context->limits.cq_stride);
}

static inline struct fanin_ring *arrival_ring(const struct fanin_context *context, uint32_t qp)
{
    return ring_at(context, qp, context->limits.max_qp, context->limits.aq_offset, context->limits.aq_stride);
}

#endif
