/* Requests of non-blocking and persistent collectives. To the program they are requests of its MPI, so it can wait
 * for them together with others:
 *
 * - a non-blocking one is a generalized request, which the shim completes when the devices are done;
 * - a persistent one is a persistent receive from MPI_PROC_NULL. The shim starts it when the devices are done, and it
 *   is then complete at once. */
#ifndef FANIN_MPI_REQUESTS_H
#define FANIN_MPI_REQUESTS_H
#include "calls/offload.h"

enum progress { INACTIVE, PENDING, SETTLING, SETTLED }; /* SETTLING: a thread makes it SETTLED */

struct request {
    struct request *next;      /* of its bucket */
    handle handle;
    handle comm;
    int is_of_freed;           /* its communicator has been freed; `comm` is MPI_COMM_WORLD */
    enum function function;
    int persistent;
    enum progress progress;
    int code;                  /* for the program, once SETTLED */
    struct fanin_communicator *job; /* of the communicator; a persistent request has its own */
    struct decoded_call decoded;
    struct prepared_call prepared;
    struct fanin_request *underway; /* NULL: the start failed with `status` */
    enum fanin_status status;
    unsigned lookers;          /* threads in shim_is_pending */
};

/* Read after `lookers` is incremented, in one order with the fence of shim_start. */
static inline enum progress shim_progress_of(const struct request *request)
{
    return __atomic_load_n(&request->progress, __ATOMIC_SEQ_CST);
}

static inline void shim_set_progress(struct request *request, enum progress progress)
{
    __atomic_store_n(&request->progress, progress, __ATOMIC_RELEASE);
}

/* Start a NONBLOCKING call, or make a PERSISTENT one, and store its handle at `place`, with result `code`. Returns 0 if
 * the MPI must do it. */
int shim_make_request(struct call *call, enum form form, void *place, int *code);

/* The shim's request whose handle is at `place`; NULL: the MPI's own, or one that has succeeded. */
struct request *shim_request(const void *place);

void shim_start(struct request *request);

/* Whether a request is still under way; completes one that has ended for the MPI. */
int shim_is_pending(struct request *request);

void shim_finish_request(struct request *request);

/* Wait for another thread that is settling a request. */
void shim_let_settle(const struct request *request);

/* The program frees a communicator: from now on errors of its requests go to MPI_COMM_WORLD. */
void shim_forget_communicator(handle comm);

/* Called when the program frees a persistent request. */
void shim_free_persistent(struct request *request);
#endif
