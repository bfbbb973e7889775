/* What the ranks of MPI_COMM_WORLD tell each other in MPI_Init. From this every rank can derive the job of any
 * communicator. */
#ifndef FANIN_MPI_MEMBERS_H
#define FANIN_MPI_MEMBERS_H
#include "abi/mpi_abi.h"
#include "fanin.h"

/* The present or possible job of a communicator. Equal on all its ranks. */
struct plan {
    struct fanin_job job;      /* with any jid and key; the caller frees `places` */
    int is_of_world;           /* all its ranks are in MPI_COMM_WORLD, so they have agreed */
    int is_reachable;          /* no loopback addresses of different machines */
    int is_on_one_host;        /* all nodes have loopback addresses */
    int is_crowded;            /* a host has more ranks of MPI_COMM_WORLD than CPUs */
};

/* All ranks of MPI_COMM_WORLD call it. status: of this rank's device. */
void shim_exchange_members(enum fanin_status status, int rank, int ranks);
void shim_forget_members(void);

enum fanin_status shim_status_of(int rank);

const char *shim_host_of(int rank);

void shim_plan_job(handle comm, int ranks, struct plan *plan);
#endif
