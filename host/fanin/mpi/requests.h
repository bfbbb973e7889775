/* Requests of non-blocking and persistent collectives. To the program they are requests of its MPI, to be waited for
 * together with others:
 *
 * - a non-blocking one is a generalized request, which is completed when the devices have done it;
 * - a persistent one is a persistent receive from nobody, which is started when the devices have done it, and is then
 *   complete at once.
 */
#ifndef FANIN_MPI_REQUESTS_H
#define FANIN_MPI_REQUESTS_H
#include "offload.h"

enum progress { INACTIVE, PENDING, SETTLING, SETTLED }; /* SETTLING: a thread is at it */

struct request {
    struct request *next;      /* of its bucket */
    handle handle;
    handle comm;
    enum function function;
    int persistent;
    enum progress progress;
    int code;                  /* SETTLED: what the program gets */
    int ranks;
    struct member *member;     /* of the communicator; of a persistent request its own */
    struct operation operation;
};

/* Start a non-blocking call, make a persistent one. Return 0 where the MPI is to do it; else `code` is for the program. */
int fanin_nonblocking(struct call *call, void *request, int *code);
int fanin_persistent(struct call *call, void *request, int *code);

/* The request of ours that a place in memory names; NULL if it is the MPI's own, or has been completed. */
struct request *fanin_request(const void *place);

/* Begin a persistent request (again). */
void fanin_start(struct request *request);

/* Whether it is still under way: looks, and settles it with the MPI if it is done. */
int fanin_is_pending(struct request *request);
void fanin_finish_request(struct request *request);

/* Another thread that looks at it may be settling it: until it has. */
void fanin_let_settle(const struct request *request);

/* The program frees a persistent request. */
void fanin_forget_request(struct request *request);
#endif
