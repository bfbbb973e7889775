/* Which ranks have the shim. Each tells the launcher before the barrier in MPI_Init, and asks for the others after it:
 * an exchange through the MPI would wait for ever for a rank without the shim (without LD_PRELOAD, statically linked,
 * or of another user). */
#ifndef FANIN_MPI_PRESENCE_H
#define FANIN_MPI_PRESENCE_H

/* NOT_KNOWN: this launcher does not tell, or has failed to. */
enum presence { ABSENT, PRESENT, NOT_KNOWN };

/* Before MPI_Init or MPI_Session_init. Only the first call in a process counts. */
void shim_say_present(void);

enum presence shim_presence_of(int rank);

/* By PMIx, for Open MPI: from now on its calls in MPI_Init tell. */
void shim_pmix_say_present(void);
enum presence shim_pmix_presence_of(int rank);

/* By PMI-1, for MPICH. */
void shim_pmi_say_present(void);
enum presence shim_pmi_presence_of(int rank);
#endif
