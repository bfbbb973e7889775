/* Which ranks have the shim. Each says so to the launcher before the barrier in MPI_Init, and asks for the others after
 * it: an exchange through the MPI would wait for ever for a rank without the shim (a part of `mpirun ... : ...` without
 * LD_PRELOAD, a program that is linked statically or runs as another user). */
#ifndef FANIN_MPI_PRESENCE_H
#define FANIN_MPI_PRESENCE_H

enum presence { ABSENT, PRESENT, NOT_KNOWN };

/* Before MPI_Init. */
void shim_say_present(void);

/* After it, about a rank of MPI_COMM_WORLD. NOT_KNOWN: this launcher does not tell; of no rank, then. */
enum presence shim_presence_of(int rank);

/* By PMIx, which Open MPI and its launcher speak: its own call in MPI_Init says it. */
enum presence shim_pmix_presence_of(int rank);

/* By PMI-1, which MPICH and its launcher Hydra speak. */
void shim_pmi_say_present(void);
enum presence shim_pmi_presence_of(int rank);
#endif
