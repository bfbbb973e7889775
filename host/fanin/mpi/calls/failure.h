/* What the program gets of a call that has failed. */
#ifndef FANIN_MPI_FAILURE_H
#define FANIN_MPI_FAILURE_H
#include "calls/buffers.h"

/* An error code of the MPI with a text of ours. An MPI has some thousand codes: the oldest of KEPT_CODES gets the
 * text. */
int shim_code_with_text(int class, const char *text);

/* An error code of the MPI for `status`, with a text that says what this rank has called, and which ranks the devices
 * name. request: of the call on `job`; NULL: it could not be started. */
int shim_error_code(handle comm, enum fanin_status status, enum function function,
                    const struct prepared_call *prepared, struct fanin_communicator *job,
                    const struct fanin_request *request);
#endif
