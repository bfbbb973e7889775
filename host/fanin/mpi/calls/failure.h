#ifndef FANIN_MPI_FAILURE_H
#define FANIN_MPI_FAILURE_H
#include "calls/buffers.h"

/* An error code of the MPI with the given text. An MPI has some thousand codes, so the oldest of KEPT_CODES is
 * reused. */
int shim_code_with_text(int class, const char *text);

/* An error code of the MPI for `status`, with a text of the call and of the ranks that the devices name. request: of
 * the call on `job`; NULL: it could not be started. */
int shim_error_code(handle comm, enum fanin_status status, enum function function,
                    const struct prepared_call *prepared, struct fanin_communicator *job,
                    const struct fanin_request *request);
#endif
