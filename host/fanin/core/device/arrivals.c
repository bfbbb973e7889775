/* The host's end of an arrival ring: short data that come before this rank asks for them (record 0058). */
#include "device/layout.h"
#include <string.h>

static const struct fanin_arrival *arrival_at(const struct fanin_ring *ring, uint32_t consumer)
{
    return (const void *)((const uint8_t *)(ring + 1) + (size_t)(consumer % FANIN_ARRIVAL_UNITS) * FANIN_ARRIVAL_UNIT);
}

/* Skip the oldest arrival, or the unused units at the end of the ring. */
static uint32_t pass(const struct fanin_arrival *arrival, uint32_t consumer)
{
    if (arrival->length == FANIN_NO_ARRIVAL)
        return consumer + FANIN_ARRIVAL_UNITS - consumer % FANIN_ARRIVAL_UNITS;
    return consumer + (uint32_t)((sizeof *arrival + arrival->length + FANIN_ARRIVAL_UNIT - 1) / FANIN_ARRIVAL_UNIT);
}

/* Whether an arrival belongs to an earlier message or job. */
static int is_past(const struct fanin_arrival *arrival, const struct fanin_wqe *wqe)
{
    return arrival->length == FANIN_NO_ARRIVAL || arrival->jid != wqe->jid ||
           (int16_t)(uint16_t)(arrival->mid - wqe->mid) < 0;
}

int fanin_has_arrivals(const struct fanin_context *context, uint32_t qp)
{
    const struct fanin_ring *ring = arrival_ring(context, qp);

    return ring && __atomic_load_n(&ring->producer, __ATOMIC_RELAXED) !=
                   __atomic_load_n(&ring->consumer, __ATOMIC_RELAXED);
}

int fanin_take_arrival(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe, void *destination)
{
    struct fanin_ring *ring = arrival_ring(context, qp);
    const struct fanin_arrival *arrival = NULL;
    uint32_t consumer, end;
    int fits = 0;

    if (!ring)
        return 0;
    consumer = ring->consumer;
    end = __atomic_load_n(&ring->producer, __ATOMIC_ACQUIRE);
    for (; consumer != end; consumer = pass(arrival, consumer)) {
        arrival = arrival_at(ring, consumer);
        if (!is_past(arrival, wqe))
            break;
    }
    if (consumer != end && destination)
        fits = arrival->mid == wqe->mid && arrival->length == wqe->length && arrival->dtype == wqe->dtype;
    if (fits) {
        memcpy(destination, arrival + 1, wqe->length);
        consumer = pass(arrival, consumer);
    }
    if (consumer != ring->consumer)
        __atomic_store_n(&ring->consumer, consumer, __ATOMIC_RELEASE);
    return fits;
}
