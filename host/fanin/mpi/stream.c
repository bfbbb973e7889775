/* Posting and completion. Never more is under way than the send queue holds, so that no queue can overflow. */
#include "stream.h"

#define BATCH 32
#define MID_MASK ((1u << FANIN_MID_BITS) - 1)

void fanin_stream_begin(struct stream *stream, struct fanin_context *context, uint32_t qp, uint32_t cq,
                        const struct fanin_join_reply *lease)
{
    *stream = (struct stream){.context = context, .qp = qp, .cq = cq, .cursor = {.slots = lease->slots}};
    pthread_mutex_init(&stream->lock, NULL);
}

static void finish(struct transfer *transfer)
{
    __atomic_store_n(&transfer->done, 1, __ATOMIC_RELEASE);
}

/* Everything that is under way or waits ends: nothing will come any more. */
static void fail_all(struct stream *stream, enum fanin_status status)
{
    struct transfer *transfer = stream->first;

    stream->first = stream->last = stream->posting = NULL;
    stream->outstanding = 0;
    while (transfer) {
        struct transfer *next = transfer->next; /* it may be gone once it is done */
        transfer->status = status;
        finish(transfer);
        transfer = next;
    }
}

static void end(struct stream *stream, enum fanin_status status)
{
    __atomic_store_n(&stream->ended, status, __ATOMIC_RELEASE);
    fail_all(stream, status);
}

/* All its completions are there. Where more is to be done, that begins; else it leaves the list. */
static void conclude(struct stream *stream, struct transfer *transfer)
{
    struct transfer **link = &stream->first, *before = NULL;

    if (transfer->expand) {
        enum fanin_status status = FANIN_SUCCESS;
        if (transfer->status == FANIN_SUCCESS)
            status = transfer->expand(transfer);
        transfer->expand = NULL;
        transfer->posted = transfer->taken = 0;
        if (status != FANIN_SUCCESS) { /* the others wait for what will never be posted here */
            end(stream, status);
            return;
        }
        if (transfer->status == FANIN_SUCCESS)
            return;
    }
    while (*link != transfer) {
        before = *link;
        link = &before->next;
    }
    *link = transfer->next;
    if (stream->last == transfer)
        stream->last = before;
    if (stream->posting == transfer)
        stream->posting = transfer->next;
    finish(transfer);
}

static struct transfer *transfer_of(struct stream *stream, uint64_t id)
{
    struct transfer *transfer = stream->first;

    while (transfer && (!transfer->posted || id < transfer->first_id || id >= transfer->first_id + transfer->posted))
        transfer = transfer->next;
    return transfer;
}

/* Requests that are not signaled have no completion of their own; they end in order. */
static void complete(struct stream *stream, const struct fanin_cqe *cqe)
{
    struct transfer *transfer = cqe->opcode == FANIN_WQE_COLLECTIVE ? transfer_of(stream, cqe->wr_id) : NULL;

    if (!transfer)
        return;
    uint32_t taken = (uint32_t)(cqe->wr_id - transfer->first_id) + 1;
    if (cqe->status != FANIN_SUCCESS && transfer->status == FANIN_SUCCESS)
        transfer->status = cqe->status;
    for (; transfer->taken < taken; transfer->taken++) {
        stream->outstanding--;
        if (transfer->store && transfer->status == FANIN_SUCCESS)
            transfer->store(transfer, transfer->taken);
    }
    if (transfer->taken == transfer->count)
        conclude(stream, transfer);
}

static enum fanin_status take_completions(struct stream *stream)
{
    struct fanin_cqe cqes[BATCH];
    enum fanin_status status;
    uint32_t count, seen;

    do {
        status = fanin_poll(stream->context, stream->cq, cqes, BATCH, &count, &seen);
        for (uint32_t i = 0; i < count; i++)
            complete(stream, &cqes[i]);
    } while (count == BATCH);
    return status;
}

static enum fanin_status post_next(struct stream *stream, struct transfer *transfer)
{
    struct fanin_wqe *wqe = transfer->load ? transfer->load(transfer, transfer->posted) : &transfer->wqes[transfer->posted];
    enum fanin_status status;

    if (!transfer->posted)
        transfer->first_id = stream->next_id;
    wqe->wr_id = transfer->first_id + transfer->posted;
    wqe->mid = (wqe->mid & ~MID_MASK) | stream->cursor.mid;
    wqe->seg = stream->cursor.slots ? stream->cursor.position % stream->cursor.slots : 0;
    status = fanin_post(stream->context, stream->qp, wqe);
    if (status != FANIN_SUCCESS)
        return status;
    stream->next_id = wqe->wr_id + 1;
    stream->cursor.mid = (stream->cursor.mid + 1) & MID_MASK;
    stream->cursor.position += wqe->segments;
    stream->outstanding++;
    transfer->posted++;
    return FANIN_SUCCESS;
}

/* A transfer without requests is a message without bytes: it is counted, as all ranks do. */
static enum fanin_status post_all(struct stream *stream)
{
    while (stream->posting) {
        struct transfer *transfer = stream->posting;
        if (!transfer->count) {
            stream->cursor.mid = (stream->cursor.mid + 1) & MID_MASK;
            conclude(stream, transfer);
            continue;
        }
        while (transfer->posted < transfer->count) {
            if (stream->outstanding == FANIN_SQ_DEPTH ||
                (transfer->load && transfer->posted - transfer->taken == transfer->window))
                return FANIN_SUCCESS;
            enum fanin_status status = post_next(stream, transfer);
            if (status != FANIN_SUCCESS)
                return status == FANIN_QUEUE_FULL ? FANIN_SUCCESS : status;
        }
        if (transfer->expand)
            return FANIN_SUCCESS;
        stream->posting = transfer->next;
    }
    return FANIN_SUCCESS;
}

static void advance(struct stream *stream)
{
    enum fanin_status status = take_completions(stream);

    if (status == FANIN_SUCCESS)
        status = post_all(stream);
    if (status != FANIN_SUCCESS)
        fail_all(stream, status);
}

void fanin_stream_submit(struct stream *stream, struct transfer *transfer)
{
    pthread_mutex_lock(&stream->lock);
    transfer->next = NULL;
    if (stream->ended) {
        transfer->status = stream->ended;
        finish(transfer);
        pthread_mutex_unlock(&stream->lock);
        return;
    }
    if (stream->last)
        stream->last->next = transfer;
    else
        stream->first = transfer;
    stream->last = transfer;
    if (!stream->posting) {
        stream->posting = transfer;
        enum fanin_status status = post_all(stream);
        if (status != FANIN_SUCCESS)
            fail_all(stream, status);
    }
    pthread_mutex_unlock(&stream->lock);
}

void fanin_stream_end(struct stream *stream, enum fanin_status status)
{
    pthread_mutex_lock(&stream->lock);
    end(stream, status);
    pthread_mutex_unlock(&stream->lock);
}

void fanin_stream_advance(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (stream->first)
        advance(stream);
    pthread_mutex_unlock(&stream->lock);
}

int fanin_stream_has_backlog(struct stream *stream)
{
    int waits;

    pthread_mutex_lock(&stream->lock);
    waits = stream->posting != NULL;
    pthread_mutex_unlock(&stream->lock);
    return waits;
}

void fanin_stream_sleep(struct stream *stream, const struct transfer *transfer, uint32_t timeout_ms)
{
    struct fanin_cqe cqe;
    uint32_t count, seen;

    pthread_mutex_lock(&stream->lock);
    enum fanin_status status = fanin_poll(stream->context, stream->cq, &cqe, 0, &count, &seen);
    pthread_mutex_unlock(&stream->lock);
    if (status == FANIN_SUCCESS && !is_done(transfer))
        fanin_wait(stream->context, stream->cq, seen, timeout_ms);
}
