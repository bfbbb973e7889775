/* The memory of an operation: the program's own where its data are dense, else a copy without gaps. */
#ifndef FANIN_MPI_BUFFERS_H
#define FANIN_MPI_BUFFERS_H
#include "calls/decode_args.h"

enum owner { OF_PROGRAM, BORROWED, ALLOCATED };

struct dense_memory {
    uint8_t *address;
    uint64_t bytes;            /* of the program's data */
    enum owner owner;          /* BORROWED from the library, or ALLOCATED by malloc: a copy */
};

/* An operation that is ready to be started. */
struct prepared_call {
    struct fanin_operation operation;
    struct dense_memory source, destination;
    int mismatched;            /* the sizes that this rank gives contradict each other */
    uint64_t *sizes;           /* of the blocks; NULL: all are equal */
};

/* Find memory for a call on the communicator `job`, and collect data that have gaps. Returns FANIN_NO_RESOURCES if
 * there is no memory, or the status that the job has ended with. */
enum fanin_status shim_prepare(const struct decoded_call *decoded, struct fanin_communicator *job,
                               struct prepared_call *prepared);

/* The operation has ended with `status`, or it was never `started`: put the result where the program wants it, and
 * give the memory back. Returns the status for the program. */
enum fanin_status shim_conclude(const struct decoded_call *decoded, struct prepared_call *prepared, int started,
                                enum fanin_status status);
#endif
