/* Completion queues, and the events that tell of new completions. */
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
/* Forget the events of a queue that nobody has read, asynchronous ones as well, then wait until all that were read are
 * acknowledged. */
void our_forget_events(struct ibv_cq *cq);

/* collectives.c */
void our_add_collectives(struct our_context *context, struct our_collectives *collectives);
void our_remove_collectives(struct our_context *context, struct our_collectives *collectives);
void our_read_collectives(struct our_context *context, const struct our_collectives *collectives,
                          struct fanin_cqe *cqe);
void our_convert_collective(struct our_context *context, const struct fanin_cqe *from, struct ibv_wc *wc);

/* owners.c: which queue pair a completion is of. */
void our_add_owner(struct our_qp *qp);
void our_remove_owner(struct our_qp *qp);
/* Note what completions that are polled say of their queue pairs. */
void our_note_completions(struct ibv_context *context, const struct ibv_wc *wcs, int count);
/* errno of a poll or a wait of a queue. A queue that overran, or a lost device, is reported. */
int our_outcome_of(struct ibv_cq *cq, enum fanin_status status);

/* watch.c: waits for the next completion of a queue, and tells its channel. NULL: no memory, or no thread. */
struct our_watch *our_start_watch(struct ibv_cq *cq);
void our_end_watch(struct our_watch *watch);
int our_request_event(struct ibv_cq *cq, int solicited_only);

#endif
