/* The Fortran library of the MPI: what stands there behind the shim, and what comes from there. */
#ifndef FANIN_MPI_FORTRAN_LIBRARY_H
#define FANIN_MPI_FORTRAN_LIBRARY_H

/* An entry of the MPI's Fortran library that one of ours hides. It is looked up once, and kept in `known`. */
void *shim_fortran_entry(void **known, const char *name);

/* Whether a non-blocking or persistent call of C comes from a Fortran library that waits past the entries of C, as
 * mpi_wait_f08_ of MPICH does: nobody would complete a request of ours. `caller` is the return address.
 */
int shim_waited_for_by_fortran(const void *caller);
#endif
