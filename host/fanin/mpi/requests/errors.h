/* Errors of requests that the MPI completes. A generalized request has no communicator, so the MPI would use the
 * handler of MPI_COMM_WORLD or MPI_COMM_SELF, and end a program whose own communicator has MPI_ERRORS_RETURN. */
#ifndef FANIN_MPI_ERRORS_H
#define FANIN_MPI_ERRORS_H
#include "requests/requests.h"

/* The handlers replaced while the MPI completes a failed request of the shim. */
struct silenced {
    int is_needed;
    handle comm;               /* of the request */
};

/* Before the MPI completes requests: if one has failed, errors are returned until shim_speak. */
struct silenced shim_silence(int count, const void *requests);

/* After it has done so: raise `code` on the communicator of the failed request. Returns `code`. */
int shim_speak(const struct silenced *silenced, int code);
#endif
