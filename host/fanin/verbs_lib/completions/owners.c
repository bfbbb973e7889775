/* The queue pairs by number, to count their outstanding receive requests and report their events. */
#include "completions/completions.h"
#include "device/device.h"

/* The low bits of a queue pair's number are its row at the device. */
static struct our_qp **place_of(struct our_context *context, uint32_t number)
{
    return &context->owners[number % OUR_OWNERS];
}

void our_add_owner(struct our_qp *qp)
{
    struct our_context *context = our_context(qp->base.qp_base.context);
    struct our_qp **place = place_of(context, qp->base.qp_base.qp_num);

    pthread_mutex_lock(&context->owners_lock);
    qp->next_owner = *place;
    *place = qp;
    pthread_mutex_unlock(&context->owners_lock);
}

void our_remove_owner(struct our_qp *qp)
{
    struct our_context *context = our_context(qp->base.qp_base.context);
    struct our_qp **place = place_of(context, qp->base.qp_base.qp_num);

    pthread_mutex_lock(&context->owners_lock);
    while (*place != qp)
        place = &(*place)->next_owner;
    *place = qp->next_owner;
    pthread_mutex_unlock(&context->owners_lock);
}

/* A receive completion establishes a connection that is still in RTR. */
static void note_receive(struct our_qp *qp, const struct ibv_wc *wc)
{
    uint32_t before = __atomic_load_n(&qp->receives, __ATOMIC_RELAXED);

    /* Requests from before a reset are not counted. */
    while (before && !__atomic_compare_exchange_n(&qp->receives, &before, before - 1, 0, __ATOMIC_RELAXED,
                                                  __ATOMIC_RELAXED))
        ;
    if (wc->status == FANIN_WC_SUCCESS && qp->base.qp_base.state == FANIN_QP_RTR &&
        qp->base.qp_base.qp_type != FANIN_SERVICE_UD)
        our_report(qp->base.qp_base.context, &qp->established, IBV_EVENT_COMM_EST, qp);
}

static int is_receive(const struct ibv_wc *wc)
{
    return wc->opcode == FANIN_WC_RECV || wc->opcode == FANIN_WC_RECV_RDMA_WITH_IMM;
}

void our_note_completions(struct ibv_context *context, const struct ibv_wc *wcs, int count)
{
    struct our_context *ours = our_context(context);
    struct our_qp *qp;
    int i = 0;

    while (i < count && !is_receive(&wcs[i]))
        i++;
    if (i == count)
        return;
    pthread_mutex_lock(&ours->owners_lock);
    for (; i < count; i++) {
        if (!is_receive(&wcs[i]))
            continue;
        for (qp = *place_of(ours, wcs[i].qp_num); qp; qp = qp->next_owner)
            if (qp->base.qp_base.qp_num == wcs[i].qp_num)
                note_receive(qp, &wcs[i]);
    }
    pthread_mutex_unlock(&ours->owners_lock);
}

/* A queue pair, without the lock: it may be destroyed and its place reused; numbers are reused late. */
struct suspect {
    uint32_t place;           /* at the device */
    uint32_t number;          /* on the wire */
};

/* Write the queue pairs of a completion queue, as far as there is room. Returns their number. */
static uint32_t find_users(struct our_context *context, const struct ibv_cq *cq, struct suspect *found, uint32_t room)
{
    uint32_t count = 0;

    pthread_mutex_lock(&context->owners_lock);
    for (uint32_t i = 0; i < OUR_OWNERS; i++)
        for (struct our_qp *qp = context->owners[i]; qp; qp = qp->next_owner)
            if ((qp->base.qp_base.send_cq == cq || qp->base.qp_base.recv_cq == cq) && count++ < room)
                found[count - 1] = (struct suspect){qp->number, qp->base.qp_base.qp_num};
    pthread_mutex_unlock(&context->owners_lock);
    return count;
}

static int is_in_error(const struct our_context *context, uint32_t place)
{
    struct fanin_qp_attributes found;

    return fanin_query_ordinary_qp(context->fanin, place, &found) == FANIN_SUCCESS && found.state == FANIN_QP_ERR;
}

static void report_failure_of(struct our_context *context, uint32_t number)
{
    struct our_qp *qp;

    pthread_mutex_lock(&context->owners_lock);
    for (qp = *place_of(context, number); qp; qp = qp->next_owner)
        if (qp->base.qp_base.qp_num == number)
            our_report(&context->base.context, &qp->failed, IBV_EVENT_QP_FATAL, qp);
    pthread_mutex_unlock(&context->owners_lock);
}

/* Report the queue pairs that an overrun has put into ERR. Asks the device without the lock, which every poll needs,
 * since the answer may take long. */
static void report_failed(struct our_context *context, const struct ibv_cq *cq)
{
    struct suspect suspects[OUR_OWNERS]; /* the most that a process can have */
    uint32_t count = find_users(context, cq, suspects, OUR_OWNERS);

    for (uint32_t i = 0; i < count && i < OUR_OWNERS; i++)
        if (is_in_error(context, suspects[i].place))
            report_failure_of(context, suspects[i].number);
}

int our_outcome_of(struct ibv_cq *cq, enum fanin_status status)
{
    if (status == FANIN_CQ_OVERRUN && !__atomic_load_n(&our_cq(cq)->overrun.is_told, __ATOMIC_RELAXED)) {
        our_report(cq->context, &our_cq(cq)->overrun, IBV_EVENT_CQ_ERR, cq);
        report_failed(our_context(cq->context), cq);
    }
    return our_outcome(cq->context, status);
}
