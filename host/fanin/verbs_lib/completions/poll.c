#include "completions/completions.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>

enum { AT_ONCE = 16 };

static void convert(struct ibv_context *context, const struct fanin_cqe *cqe, struct ibv_wc *wc)
{
    const struct fanin_wc *from = fanin_wc_of(cqe);

    if (!from) {
        our_convert_collective(our_context(context), cqe, wc);
        return;
    }
    *wc = (struct ibv_wc){
        .wr_id = from->wr_id,
        .status = from->status,
        .opcode = from->opcode,
        .byte_len = from->byte_length,
        .imm_data = from->flags & FANIN_WC_WITH_IMM ? htonl(from->immediate) : from->immediate,
        .qp_num = from->qpn,
        .src_qp = from->source_qpn,
        .wc_flags = from->flags,
    };
}

int our_poll_cq(struct ibv_cq *cq, int capacity, struct ibv_wc *wc)
{
    struct fanin_cqe cqes[AT_ONCE];
    uint32_t count = AT_ONCE, seen;
    int taken = 0;

    if (our_is_inherited(cq->context))
        return our_minus_one(EIO);
    while (taken < capacity && count == AT_ONCE) {
        uint32_t room = (uint32_t)(capacity - taken);
        enum fanin_status status = fanin_poll(our_fanin(cq->context), our_cq(cq)->number, cqes,
                                              room < AT_ONCE ? room : AT_ONCE, &count, &seen);
        for (uint32_t i = 0; i < count; i++)
            convert(cq->context, &cqes[i], &wc[taken + (int)i]);
        our_note_completions(cq->context, &wc[taken], (int)count);
        taken += (int)count;
        if (status != FANIN_SUCCESS && taken == 0)
            return our_minus_one(our_outcome_of(cq, status));
    }
    if (taken == 0 && capacity > 0)
        sched_yield(); /* the device is a process, too, and may need this core */
    return taken;
}
