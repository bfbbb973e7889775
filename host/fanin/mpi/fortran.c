/* The blocking collectives as Fortran calls them: mpif.h and `use mpi` by the names with an underscore, `use mpi_f08` of
 * Open MPI through its ompi_..._f. Its Fortran library calls PMPI_ itself, past the entries of C. What is not here goes
 * to the MPI as it always did, and so does all that belongs to it: non-blocking calls and the waits for them.
 */
#define _GNU_SOURCE
#include "entries.h"
#include "world.h"
#include <dlfcn.h>

extern int MPI_Barrier(handle comm);
#define X(name, iname, TABLE) extern int MPI_##name(TABLE##_PARAMETERS(int, int));
COUNTED_COLLECTIVES(X)
#undef X

/* A handle of Fortran is an int; in MPICH that of C is the same. */
static handle from_fortran(const char *function, int number)
{
    handle (*convert)(int) = (handle(*)(int))fanin_symbol(function);

    return convert ? convert(number) : (handle)(unsigned)number;
}

#define CONVERSION(name, symbol)                        \
    static handle name(const int *number)               \
    {                                                   \
        return from_fortran("PMPI_" symbol "_f2c", *number); \
    }
CONVERSION(comm_of, "Comm")
CONVERSION(type_of, "Type")
CONVERSION(op_of, "Op")

/* MPI_IN_PLACE and MPI_BOTTOM are variables in Fortran: of Open MPI by their names, of MPICH named by pointers. */
static int is_variable(const void *address, const char *open_mpi, const char *mpich)
{
    void *variable = fanin_symbol(open_mpi), **pointer = fanin_symbol(mpich);

    return address && (address == variable || (pointer && address == *pointer));
}

static void *buffer_of(const void *address)
{
    if (is_variable(address, "mpi_fortran_in_place_", "MPIR_F_MPI_IN_PLACE"))
        return (void *)(intptr_t)fanin_family->in_place;
    if (is_variable(address, "mpi_fortran_bottom_", "MPIR_F_MPI_BOTTOM"))
        return NULL;
    return (void *)address;
}

#define FORTRAN(name, parameters, call)   \
    ENTRY void mpi_##name##_ parameters   \
    {                                     \
        fanin_bind();                     \
        *error = call;                    \
    }                                     \
    ENTRY void ompi_##name##_f parameters \
    {                                     \
        fanin_bind();                     \
        *error = call;                    \
    }

#define REDUCED const void *send, void *receive, const int *count, const int *type, const int *op
#define REDUCED_IN_C buffer_of(send), buffer_of(receive), *count, type_of(type), op_of(op)
#define MOVED_IN                                                                                                   \
    const void *send, const int *send_count, const int *send_type, void *receive, const int *receive_count,        \
        const int *receive_type
#define MOVED_IN_C \
    buffer_of(send), *send_count, type_of(send_type), buffer_of(receive), *receive_count, type_of(receive_type)
#define GATHERED_IN                                                                                         \
    const void *send, const int *send_count, const int *send_type, void *receive, const int *counts,        \
        const int *offsets, const int *receive_type
#define GATHERED_IN_C \
    buffer_of(send), *send_count, type_of(send_type), buffer_of(receive), counts, offsets, type_of(receive_type)
#define COMM const int *comm, int *error
#define ROOTED const int *root, COMM

FORTRAN(allreduce, (REDUCED, COMM), MPI_Allreduce(REDUCED_IN_C, comm_of(comm)))
FORTRAN(reduce, (REDUCED, ROOTED), MPI_Reduce(REDUCED_IN_C, *root, comm_of(comm)))
FORTRAN(reduce_scatter_block, (REDUCED, COMM), MPI_Reduce_scatter_block(REDUCED_IN_C, comm_of(comm)))
FORTRAN(reduce_scatter, (REDUCED, COMM),
        MPI_Reduce_scatter(buffer_of(send), buffer_of(receive), count, type_of(type), op_of(op), comm_of(comm)))
FORTRAN(bcast, (void *buffer, const int *count, const int *type, ROOTED),
        MPI_Bcast(buffer_of(buffer), *count, type_of(type), *root, comm_of(comm)))
FORTRAN(allgather, (MOVED_IN, COMM), MPI_Allgather(MOVED_IN_C, comm_of(comm)))
FORTRAN(gather, (MOVED_IN, ROOTED), MPI_Gather(MOVED_IN_C, *root, comm_of(comm)))
FORTRAN(scatter, (MOVED_IN, ROOTED), MPI_Scatter(MOVED_IN_C, *root, comm_of(comm)))
FORTRAN(allgatherv, (GATHERED_IN, COMM), MPI_Allgatherv(GATHERED_IN_C, comm_of(comm)))
FORTRAN(gatherv, (GATHERED_IN, ROOTED), MPI_Gatherv(GATHERED_IN_C, *root, comm_of(comm)))
FORTRAN(scatterv,
        (const void *send, const int *counts, const int *offsets, const int *send_type, void *receive,
         const int *receive_count, const int *receive_type, ROOTED),
        MPI_Scatterv(buffer_of(send), counts, offsets, type_of(send_type), buffer_of(receive), *receive_count,
                     type_of(receive_type), *root, comm_of(comm)))
FORTRAN(barrier, (COMM), MPI_Barrier(comm_of(comm)))

/* Initialization sets up the MPI's Fortran as well, so the MPI's own entry does it. */
#define NEXT(name) dlsym(RTLD_NEXT, name)

#define INITIALIZATION(symbol)                                            \
    ENTRY void symbol(int *error)                                         \
    {                                                                     \
        void (*next)(int *) = (void (*)(int *))NEXT(#symbol);             \
        next(error);                                                      \
        fanin_bind();                                                     \
        fanin_begin_world();                                                    \
    }
#define THREAD_INITIALIZATION(symbol)                                                        \
    ENTRY void symbol(const int *required, int *provided, int *error)                        \
    {                                                                                        \
        void (*next)(const int *, int *, int *) = (void (*)(const int *, int *, int *))NEXT(#symbol); \
        next(required, provided, error);                                                     \
        fanin_bind();                                                                        \
        fanin_begin_world();                                                                       \
    }
#define FINALIZATION(symbol)                                  \
    ENTRY void symbol(int *error)                             \
    {                                                         \
        void (*next)(int *) = (void (*)(int *))NEXT(#symbol); \
        fanin_bind();                                         \
        fanin_end_world();                                          \
        next(error);                                          \
    }
INITIALIZATION(mpi_init_)
INITIALIZATION(mpi_init_f08_)
THREAD_INITIALIZATION(mpi_init_thread_)
THREAD_INITIALIZATION(mpi_init_thread_f08_)
FINALIZATION(mpi_finalize_)
FINALIZATION(mpi_finalize_f08_)
