/* Completions of collectives in the form of verbs; their queue keeps the full one. */
#include "completions/completions.h"
#include <stdint.h>

static const struct {
    enum fanin_status status;
    enum ibv_wc_status code;
} rows[] = {
    {FANIN_SUCCESS, IBV_WC_SUCCESS},
    {FANIN_PENDING, IBV_WC_SUCCESS}, /* the answer to a QUERY */
    {FANIN_LOCAL_PROTECTION_ERROR, IBV_WC_LOC_PROT_ERR},
    {FANIN_INVALID_REQUEST, IBV_WC_LOC_QP_OP_ERR},
    {FANIN_NOT_SUPPORTED, IBV_WC_LOC_QP_OP_ERR},
    {FANIN_FLUSHED, IBV_WC_WR_FLUSH_ERR},
    {FANIN_ABORTED, IBV_WC_REM_ABORT_ERR},
    {FANIN_OP_MISMATCH, IBV_WC_REM_INV_REQ_ERR},
    {FANIN_PEER_LOST, IBV_WC_RETRY_EXC_ERR},
    {FANIN_PATH_MTU, IBV_WC_RETRY_EXC_ERR},
    {FANIN_TIMEOUT, IBV_WC_RESP_TIMEOUT_ERR},
};

static enum ibv_wc_status code_of(enum fanin_status status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return rows[i].code;
    return IBV_WC_GENERAL_ERR;
}

void our_add_collectives(struct our_context *context, struct our_collectives *collectives)
{
    pthread_mutex_lock(&context->owners_lock);
    collectives->next = context->collectives;
    context->collectives = collectives;
    pthread_mutex_unlock(&context->owners_lock);
}

void our_remove_collectives(struct our_context *context, struct our_collectives *collectives)
{
    struct our_collectives **place = &context->collectives;

    pthread_mutex_lock(&context->owners_lock);
    while (*place != collectives)
        place = &(*place)->next;
    *place = collectives->next;
    pthread_mutex_unlock(&context->owners_lock);
}

void our_read_collectives(struct our_context *context, const struct our_collectives *collectives,
                          struct fanin_cqe *cqe)
{
    pthread_mutex_lock(&context->owners_lock);
    *cqe = collectives->last;
    pthread_mutex_unlock(&context->owners_lock);
}

void our_convert_collective(struct our_context *context, const struct fanin_cqe *from, struct ibv_wc *wc)
{
    struct our_collectives *owner;

    *wc = (struct ibv_wc){
        .wr_id = from->wr_id,
        .status = (int)code_of(from->status),
        .opcode = from->opcode == FANIN_WQE_QUERY ? IBV_WC_DRIVER2 : IBV_WC_DRIVER1,
        .vendor_err = from->status,
        .byte_len = from->byte_length < UINT32_MAX ? (uint32_t)from->byte_length : UINT32_MAX,
        .qp_num = from->qp,
    };
    pthread_mutex_lock(&context->owners_lock);
    for (owner = context->collectives; owner; owner = owner->next)
        if (owner->number == from->qp)
            owner->last = *from;
    pthread_mutex_unlock(&context->owners_lock);
}
