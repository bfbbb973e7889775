/* The ranks of MPI_COMM_WORLD: what they tell each other in MPI_Init. So every rank knows what job a communicator would
 * have before it is formed. */
#ifndef FANIN_MPI_MEMBERS_H
#define FANIN_MPI_MEMBERS_H
#include "abi/mpi_abi.h"
#include "fanin.h"

/* The job that a communicator has or would have. Equal on all its ranks. */
struct plan {
    struct fanin_job job;      /* any jid and key; `places` is to be freed */
    int is_of_world;           /* MPI_COMM_WORLD has all its ranks. Others have agreed on nothing with this one */
    int is_reachable;          /* no nodes have loopback addresses of different machines */
    int is_on_one_host;        /* all nodes have loopback addresses: they are processes of one machine */
    int is_crowded;            /* a host of its ranks has more ranks of MPI_COMM_WORLD than CPUs */
};

/* All ranks of MPI_COMM_WORLD call it. status: of this rank's device. */
void shim_exchange_members(enum fanin_status status, int rank, int ranks);
void shim_forget_members(void);

/* The status of a rank's device. */
enum fanin_status shim_status_of(int rank);

/* The name of its host. */
const char *shim_host_of(int rank);

void shim_plan_job(handle comm, int ranks, struct plan *plan);
#endif
