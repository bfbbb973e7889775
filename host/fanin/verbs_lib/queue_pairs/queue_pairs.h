#ifndef FANIN_VERBS_QUEUE_PAIRS_H
#define FANIN_VERBS_QUEUE_PAIRS_H
#include "objects.h"

/* create.c: of every queue pair. */
extern const struct ibv_qp_cap our_capacities;
struct ibv_qp *our_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);

/* post.c */
int our_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int our_post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Post all send requests, or none; errno. */
int our_post_wqes(struct our_qp *qp, const struct fanin_send_wqe *wqes, uint32_t count);
/* Convert a receive request; 0: too many pieces. */
int our_receive_wqe(const struct ibv_recv_wr *wr, struct fanin_receive_wqe *wqe);
/* Append inline data to a request; 0: no room. */
int our_append_inline(struct fanin_send_wqe *wqe, const void *data, size_t length);

/* shared_queues.c */
int our_post_shared(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* extended_post.c: 0: no memory. */
int our_offer_extended_post(struct our_qp *qp);
void our_end_extended_post(struct our_qp *qp);

#endif
