/* The job of a communicator: from where its ranks are to what a rank tells its device when it joins.
 *
 * The C form of the host library's job.py and tree.py. All ranks compute the same from the same table of places.
 */
#ifndef FANIN_MPI_JOB_H
#define FANIN_MPI_JOB_H
#include "abi.h"

#define MAX_COMPLAINT 160

/* Where one rank is: the NIC of its node, and what lies above it. Exchanged through the MPI as it stands. */
struct place {
    uint32_t address;          /* IPv4 of the NIC, host order */
    uint32_t ring;             /* nodes with the same number hang on a plain switch and form a ring; 0: none */
    uint32_t hops;
    uint32_t hop[FANIN_MAX_HOPS]; /* IPv4 of the offloading switches above it, lowest first */
};

enum { ROUTE_AUTO = 255 };

/* All that the ranks of a job agree on. */
struct description {
    uint32_t jid, key;
    uint32_t route;            /* enum fanin_route, or ROUTE_AUTO */
    uint32_t chunk, slots;
    uint32_t ranks;
    const struct place *places; /* one for each rank */
};

#pragma GCC visibility push(default)
/* What rank `rank` tells its device. Returns FANIN_INVALID_REQUEST, on all ranks alike, and says why in `complaint` of
 * MAX_COMPLAINT bytes, where the places make no job. */
enum fanin_status fanin_mpi_membership(const struct description *job, uint32_t rank, struct fanin_join *join,
                                       char *complaint);
#pragma GCC visibility pop
#endif
