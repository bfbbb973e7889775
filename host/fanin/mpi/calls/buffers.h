/* The memory of an operation: the program's own if its data are dense, otherwise a copy. */
#ifndef FANIN_MPI_BUFFERS_H
#define FANIN_MPI_BUFFERS_H
#include "calls/decode_args.h"

enum owner { OF_PROGRAM, BORROWED, ALLOCATED };

struct dense_memory {
    uint8_t *address;
    uint64_t bytes;            /* of the program's data */
    enum owner owner;          /* of a copy: BORROWED from the library, or ALLOCATED by malloc */
};

/* An operation that can be started. */
struct prepared_call {
    struct fanin_operation operation;
    struct dense_memory source, destination;
    int mismatched;            /* this rank's sizes contradict each other */
    uint64_t *sizes;           /* of the blocks; NULL: all are equal */
};

/* Find memory for a call on `job`, and collect data with gaps. Returns FANIN_NO_RESOURCES, or the status with which the
 * job has ended. */
enum fanin_status shim_prepare(const struct decoded_call *decoded, struct fanin_communicator *job,
                               struct prepared_call *prepared);

/* After the operation has ended with `status`, or was never `started`: deliver the result, and give the memory back.
 * Returns the status for the program. */
enum fanin_status shim_conclude(const struct decoded_call *decoded, struct prepared_call *prepared, int started,
                                enum fanin_status status);
#endif
