#ifndef FANIN_VERBS_COMPLETIONS_H
#define FANIN_VERBS_COMPLETIONS_H
#include "objects.h"

/* poll.c */
int our_poll_cq(struct ibv_cq *cq, int capacity, struct ibv_wc *wc);
/* extended_poll.c */
void our_offer_extended_poll(struct ibv_cq_ex *cq);
/* queues.c */
struct ibv_cq_ex *our_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init);

/* channel.c: events of several queues, in order. */
void our_tell(struct ibv_cq *cq);
/* Forget the unread events of a queue, asynchronous ones included, and wait until all others are acknowledged. */
void our_forget_events(struct ibv_cq *cq);

/* collectives.c */
void our_add_collectives(struct our_context *context, struct our_collectives *collectives);
void our_remove_collectives(struct our_context *context, struct our_collectives *collectives);
void our_read_collectives(struct our_context *context, const struct our_collectives *collectives,
                          struct fanin_cqe *cqe);
void our_convert_collective(struct our_context *context, const struct fanin_cqe *from, struct ibv_wc *wc);

/* owners.c: the queue pair of a completion. */
void our_add_owner(struct our_qp *qp);
void our_remove_owner(struct our_qp *qp);
/* Update the queue pairs of polled completions. */
void our_note_completions(struct ibv_context *context, const struct ibv_wc *wcs, int count);
/* errno of a poll or wait; reports an overrun or a lost device. */
int our_outcome_of(struct ibv_cq *cq, enum fanin_status status);

/* watch.c: a thread that tells the channel of completions. NULL: no memory, or no thread. */
struct our_watch *our_start_watch(struct ibv_cq *cq);
void our_end_watch(struct our_watch *watch);
int our_request_event(struct ibv_cq *cq, int solicited_only);

#endif
