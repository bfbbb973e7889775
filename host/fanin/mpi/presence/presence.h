/* Which ranks have the shim. Each says so to the launcher before the barrier in MPI_Init, and asks for the others after
 * it: an exchange through the MPI would wait for ever for a rank without the shim (a part of `mpirun ... : ...` without
 * LD_PRELOAD, a program that is linked statically or runs as another user). */
#ifndef FANIN_MPI_PRESENCE_H
#define FANIN_MPI_PRESENCE_H

/* NOT_KNOWN: this launcher does not tell, of any rank; or it has failed to. */
enum presence { ABSENT, PRESENT, NOT_KNOWN };

/* Before MPI_Init or MPI_Session_init. Only the first call in a process counts. */
void shim_say_present(void);

/* After MPI_Init, about a rank of MPI_COMM_WORLD. */
enum presence shim_presence_of(int rank);

/* By PMIx, which Open MPI and its launcher speak: from now on its own calls in MPI_Init say it. */
void shim_pmix_say_present(void);
enum presence shim_pmix_presence_of(int rank);

/* By PMI-1, which MPICH and its launcher Hydra speak. */
void shim_pmi_say_present(void);
enum presence shim_pmi_presence_of(int rank);
#endif
