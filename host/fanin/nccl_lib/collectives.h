/* NCCL's collective network: groups of ranks, each of which is a job of the devices. */
#ifndef FANIN_NCCL_COLLECTIVES_H
#define FANIN_NCCL_COLLECTIVES_H
#include "nccl_abi.h"

/* Functions of all versions; interfaces.c has wrappers where versions differ. Each returns enum nccl_result, and logs
 * errors. */
int collective_listen(int nic, void *handle, void **listener);
int collective_connect(void *handles[], int ranks, int rank, void *listener, void **group);
int collective_is_supported(int datatype, int op, int *supported);
int collective_register(void *group, void *memory, size_t bytes, int type, void **registration);
int collective_deregister(void *group, void *registration);
int collective_allreduce(void *group, void *source, void *destination, size_t count, int datatype, int op,
                         void *source_registration, void *destination_registration, void **request);
/* These calls compute `bytes` bytes from `window` on of a result with a block of `block` bytes for each rank: the
 * pieces are that part, `source` (`destination`) this rank's share of it. */
int collective_allgather(void *group, void *source, int piece_count, struct nccl_piece *pieces, size_t block,
                         size_t window, size_t bytes, void *registration, void **request);
int collective_reduce_scatter(void *group, int piece_count, struct nccl_piece *pieces, void *destination, size_t block,
                              size_t window, size_t bytes, int datatype, int op, void *registration, void **request);
int collective_flush(void *group, void *memory, int bytes, void *registration, void **request);
int collective_test(void *request, int *done, int *bytes);
int collective_close(void *group);
int collective_close_listener(void *listener);
#endif
