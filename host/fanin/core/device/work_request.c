/* Checks a work request before it is posted. A device ends the job on a wrong request, since its stream of positions
 * would be out of step with the program's. */
#include "complaint.h"
#include "device/connection.h"
#include "tables.h"
#include <inttypes.h>

#define KNOWN_FLAGS (FANIN_WQE_SIGNALED | FANIN_WQE_ADDRESS_LIST | FANIN_WQE_INLINE | FANIN_WQE_FENCE | FANIN_WQE_LONG)
#define WIDE (FANIN_JOB_WIDE | FANIN_JOB_REPRODUCIBLE_SHAPE)
#define MAX_SEGMENTS 0x3FFFFFFF /* of a message */

#define REFUSE(status, ...) (fanin_complain(__VA_ARGS__), (status))

static uint64_t divide_up(uint64_t dividend, uint64_t divisor)
{
    return dividend / divisor + (dividend % divisor != 0);
}

/* Some of the members need a job of their own, with its own positions. */
static enum fanin_status check_members(const char *whose, uint64_t given, uint64_t all)
{
    if (given == all)
        return FANIN_SUCCESS;
    if (given && !(given & ~all))
        return REFUSE(FANIN_NOT_SUPPORTED, "the bitmap %#" PRIx64 " names only some of the %s %#" PRIx64
                      ", but all members of a job take part in every operation", given, whose, all);
    return REFUSE(FANIN_INVALID_REQUEST, "the bitmap %#" PRIx64 " does not name the %s %#" PRIx64, given, whose, all);
}

static enum fanin_status check_place(const struct fanin_join *join, const struct fanin_join_reply *lease,
                                     const struct fanin_cursor *cursor, const struct fanin_wqe *wqe)
{
    uint64_t nodes = join->node_count < FANIN_MAX_CHILDREN ? (UINT64_C(1) << join->node_count) - 1 : UINT64_MAX;
    uint32_t most = lease->chunk ? lease->chunk : join->chunk;
    enum fanin_status status = FANIN_SUCCESS;

    if (wqe->jid != join->jid)
        return REFUSE(FANIN_INVALID_REQUEST, "jid is %u, but the queue pair has joined job %u", wqe->jid, join->jid);
    if (wqe->route != join->route)
        return REFUSE(FANIN_INVALID_REQUEST, "route is %u, but the job's is %u", wqe->route, join->route);
    if (join->node_count <= FANIN_MAX_CHILDREN)
        status = check_members("nodes of the job", wqe->node_bitmap, nodes);
    if (status == FANIN_SUCCESS)
        status = check_members("ranks that the queue pair posts for", wqe->rank_bitmap, join->rank_bitmap);
    if (status != FANIN_SUCCESS)
        return status;
    if (wqe->chunk < FANIN_MIN_WQE_CHUNK || wqe->chunk > most || wqe->chunk & (wqe->chunk - 1))
        return REFUSE(FANIN_INVALID_REQUEST, "chunk is %u, not a power of two from %u to %u", wqe->chunk,
                      FANIN_MIN_WQE_CHUNK, most);
    if (cursor->slots && wqe->seg != cursor->position % cursor->slots)
        return REFUSE(FANIN_BUFFER_ERROR, "seg is %u, but position %u has slot %u", wqe->seg, cursor->position,
                      cursor->position % cursor->slots);
    return FANIN_SUCCESS;
}

static enum fanin_status check_addresses(const struct fanin_wqe *wqe)
{
    uint32_t ranks = (uint32_t)__builtin_popcountll(wqe->rank_bitmap);

    if (wqe->flags & ~KNOWN_FLAGS)
        return REFUSE(FANIN_INVALID_REQUEST, "flags %#x have unknown bits", wqe->flags);
    if (wqe->address_count != ranks)
        return REFUSE(FANIN_INVALID_REQUEST, "%u addresses for %u ranks", wqe->address_count, ranks);
    if ((ranks > 1) != !!(wqe->flags & FANIN_WQE_ADDRESS_LIST))
        return REFUSE(FANIN_INVALID_REQUEST, "flag ADDRESS_LIST is required for several ranks, and forbidden for one");
    if (ranks > 1 && wqe->flags & FANIN_WQE_INLINE)
        return REFUSE(FANIN_INVALID_REQUEST, "flag INLINE is for the data of one rank, not of %u", ranks);
    return FANIN_SUCCESS;
}

static uint64_t segment_of(const struct fanin_join *join, const struct fanin_wqe *wqe)
{
    int wide = join->flags & WIDE && wqe->contributors == FANIN_CLASS_ALL;

    return fanin_segment_bytes(wqe->chunk, wide, wqe->op, wqe->dtype);
}

static enum fanin_status check_segments(const struct fanin_wqe *wqe, uint64_t segment)
{
    uint64_t whole = wqe->length / wqe->block, rest = wqe->length % wqe->block, segments;

    if (wqe->length / segment + wqe->length / wqe->block >= MAX_SEGMENTS)
        return REFUSE(FANIN_INVALID_REQUEST, "%" PRIu64 " bytes are more than %u segments", wqe->length,
                      MAX_SEGMENTS);
    segments = whole * divide_up(wqe->block, segment) + divide_up(rest, segment);
    if (!wqe->segments || wqe->sid + (uint64_t)wqe->segments > segments)
        return REFUSE(FANIN_INVALID_REQUEST, "%u segments from sid %u exceed the message's %" PRIu64,
                      wqe->segments, wqe->sid, segments);
    return FANIN_SUCCESS;
}

static enum fanin_status check_message(const struct fanin_join *join, const struct fanin_wqe *wqe)
{
    uint32_t size = fanin_dtype_bytes(wqe->dtype);
    uint64_t segment;

    if (wqe->contributors > FANIN_CLASS_ALL)
        return REFUSE(FANIN_NOT_SUPPORTED, "contributor class %u is unknown", wqe->contributors);
    if (wqe->contributors == FANIN_CLASS_NONE)
        return !wqe->length && wqe->segments == 1
                   ? FANIN_SUCCESS
                   : fanin_complain("a request without contributors has %" PRIu64 " bytes in %u segments; give 0 and 1",
                                    wqe->length, wqe->segments);
    if (!size || (wqe->contributors == FANIN_CLASS_ALL && !fanin_is_supported(wqe->op, wqe->dtype)))
        return REFUSE(FANIN_NOT_SUPPORTED, "the devices do not compute operation %u of type %u", wqe->op, wqe->dtype);
    if (!wqe->length)
        return wqe->segments ? fanin_complain("a message without bytes has %u segments", wqe->segments) : FANIN_SUCCESS;
    segment = segment_of(join, wqe);
    if (!wqe->block || wqe->block > wqe->length || wqe->length % size || wqe->block % size || segment % size)
        return REFUSE(FANIN_INVALID_REQUEST, "%" PRIu64 " bytes in blocks of %" PRIu64 " and segments of %" PRIu64
                      ": each must be a multiple of the element size %u", wqe->length, wqe->block, segment, size);
    return check_segments(wqe, segment);
}

enum fanin_status fanin_check_request(const struct fanin_join *join, const struct fanin_join_reply *lease,
                                      const struct fanin_cursor *cursor, const struct fanin_wqe *wqe)
{
    enum fanin_status status;

    fanin_forget_complaint();
    if (wqe->opcode != FANIN_WQE_COLLECTIVE)
        return REFUSE(FANIN_NOT_SUPPORTED, "opcode %u is not a collective", wqe->opcode);
    status = check_place(join, lease, cursor, wqe);
    if (status == FANIN_SUCCESS)
        status = check_addresses(wqe);
    return status == FANIN_SUCCESS ? check_message(join, wqe) : status;
}
