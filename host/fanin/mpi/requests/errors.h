/* Errors of requests that the MPI completes. It knows no communicator of a generalized request, so it would give the
 * error of one to the handler of MPI_COMM_WORLD or MPI_COMM_SELF, and by default end a program whose own communicator
 * has MPI_ERRORS_RETURN. */
#ifndef FANIN_MPI_ERRORS_H
#define FANIN_MPI_ERRORS_H
#include "requests/requests.h"

/* What errors of the MPI do while it completes requests of which one of the shim's own has failed. */
struct silenced {
    int is_needed;
    handle comm;               /* of the request */
};

/* The MPI is about to complete requests of an array. If one has failed, errors are returned until shim_speak. */
struct silenced shim_silence(int count, const void *requests);

/* The MPI has done so, with `code`: the communicator of the failed request gets it. Returns `code`. */
int shim_speak(const struct silenced *silenced, int code);
#endif
