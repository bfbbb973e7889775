/* The Fortran library of the MPI. */
#ifndef FANIN_MPI_FORTRAN_LIBRARY_H
#define FANIN_MPI_FORTRAN_LIBRARY_H

/* The function of the MPI's Fortran library that an entry of the shim hides. It is looked up once, and kept in
 * `known`. */
void *shim_fortran_entry(void **known, const char *name);

/* Whether `caller`, a return address, is in the library of `use mpi_f08`. Its waits do not call the entries of C,
 * so they could not complete a request of the shim. */
int shim_is_called_by_f08(const void *caller);
#endif
