/* The entries of blocking collectives for Fortran. Programs with mpif.h and `use mpi` call the names with an
 * underscore; `use mpi_f08` of Open MPI calls its ompi_..._f. The Fortran library of Open MPI then calls PMPI_ and
 * not the entries of C, so the arguments are converted here. The Fortran libraries of other MPIs convert the
 * arguments themselves, and call the entries of C. Other functions of Fortran go to the MPI, such as non-blocking
 * calls and the waits for them.
 */
#include "entry/entry.h"
#include "abi/fortran_library.h"
#include "init.h"
#include <pthread.h>

extern int MPI_Barrier(handle comm);
#define X(name, iname, TABLE) extern int MPI_##name(TABLE##_PARAMETERS(int, int));
COUNTED_COLLECTIVES(X)
#undef X

/* Conversions of Open MPI: a handle of Fortran is an int; MPI_IN_PLACE and MPI_BOTTOM are variables. */
static struct {
    handle (*comm)(int), (*type)(int), (*op)(int);
    const void *in_place, *bottom;
} open_mpi;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void resolve(void)
{
    open_mpi.comm = (handle(*)(int))shim_symbol("PMPI_Comm_f2c");
    open_mpi.type = (handle(*)(int))shim_symbol("PMPI_Type_f2c");
    open_mpi.op = (handle(*)(int))shim_symbol("PMPI_Op_f2c");
    open_mpi.in_place = shim_symbol("mpi_fortran_in_place_");
    open_mpi.bottom = shim_symbol("mpi_fortran_bottom_");
}

/* Every entry begins with this call. Returns whether the entry converts the arguments itself. */
static int converts(void)
{
    shim_bind();
    if (shim_abi->fortran_skips_c)
        pthread_once(&once, resolve);
    return shim_abi->fortran_skips_c;
}

static handle comm_of(const int *number)
{
    return open_mpi.comm(*number);
}

static handle type_of(const int *number)
{
    return open_mpi.type(*number);
}

static handle op_of(const int *number)
{
    return open_mpi.op(*number);
}

static void *buffer_of(const void *address)
{
    if (address && address == open_mpi.in_place)
        return (void *)(intptr_t)shim_abi->in_place;
    return address == open_mpi.bottom ? NULL : (void *)address;
}

/* Call the function of the MPI's Fortran library that the entry hides. */
#define CALL_NEXT(symbol, parameters, arguments)                              \
    do {                                                                      \
        static void *known;                                                   \
        ((void(*) parameters)shim_fortran_entry(&known, #symbol)) arguments; \
    } while (0)

#define FORTRAN(name, parameters, arguments, call)           \
    ENTRY void mpi_##name##_ parameters                      \
    {                                                        \
        if (converts())                                    \
            *error = call;                                   \
        else                                                 \
            CALL_NEXT(mpi_##name##_, parameters, arguments); \
    }                                                        \
    ENTRY void ompi_##name##_f parameters                    \
    {                                                        \
        converts();                                        \
        *error = call;                                       \
    }

#define REDUCED const void *send, void *receive, const int *count, const int *type, const int *op
#define REDUCED_HERE send, receive, count, type, op
#define REDUCED_IN_C buffer_of(send), buffer_of(receive), *count, type_of(type), op_of(op)
#define MOVED_IN                                                                                                   \
    const void *send, const int *send_count, const int *send_type, void *receive, const int *receive_count,        \
        const int *receive_type
#define MOVED_HERE send, send_count, send_type, receive, receive_count, receive_type
#define MOVED_IN_C \
    buffer_of(send), *send_count, type_of(send_type), buffer_of(receive), *receive_count, type_of(receive_type)
#define GATHERED_IN                                                                                         \
    const void *send, const int *send_count, const int *send_type, void *receive, const int *counts,        \
        const int *offsets, const int *receive_type
#define GATHERED_HERE send, send_count, send_type, receive, counts, offsets, receive_type
#define GATHERED_IN_C \
    buffer_of(send), *send_count, type_of(send_type), buffer_of(receive), counts, offsets, type_of(receive_type)
#define COMM const int *comm, int *error
#define ROOTED const int *root, COMM
#define COMM_HERE comm, error
#define ROOTED_HERE root, COMM_HERE

FORTRAN(allreduce, (REDUCED, COMM), (REDUCED_HERE, COMM_HERE), MPI_Allreduce(REDUCED_IN_C, comm_of(comm)))
FORTRAN(reduce, (REDUCED, ROOTED), (REDUCED_HERE, ROOTED_HERE), MPI_Reduce(REDUCED_IN_C, *root, comm_of(comm)))
FORTRAN(reduce_scatter_block, (REDUCED, COMM), (REDUCED_HERE, COMM_HERE), MPI_Reduce_scatter_block(REDUCED_IN_C, comm_of(comm)))
FORTRAN(reduce_scatter, (REDUCED, COMM), (REDUCED_HERE, COMM_HERE),
        MPI_Reduce_scatter(buffer_of(send), buffer_of(receive), count, type_of(type), op_of(op), comm_of(comm)))
FORTRAN(bcast, (void *buffer, const int *count, const int *type, ROOTED), (buffer, count, type, ROOTED_HERE),
        MPI_Bcast(buffer_of(buffer), *count, type_of(type), *root, comm_of(comm)))
FORTRAN(allgather, (MOVED_IN, COMM), (MOVED_HERE, COMM_HERE), MPI_Allgather(MOVED_IN_C, comm_of(comm)))
FORTRAN(gather, (MOVED_IN, ROOTED), (MOVED_HERE, ROOTED_HERE), MPI_Gather(MOVED_IN_C, *root, comm_of(comm)))
FORTRAN(scatter, (MOVED_IN, ROOTED), (MOVED_HERE, ROOTED_HERE), MPI_Scatter(MOVED_IN_C, *root, comm_of(comm)))
FORTRAN(allgatherv, (GATHERED_IN, COMM), (GATHERED_HERE, COMM_HERE), MPI_Allgatherv(GATHERED_IN_C, comm_of(comm)))
FORTRAN(gatherv, (GATHERED_IN, ROOTED), (GATHERED_HERE, ROOTED_HERE), MPI_Gatherv(GATHERED_IN_C, *root, comm_of(comm)))
FORTRAN(scatterv,
        (const void *send, const int *counts, const int *offsets, const int *send_type, void *receive,
         const int *receive_count, const int *receive_type, ROOTED),
        (send, counts, offsets, send_type, receive, receive_count, receive_type, ROOTED_HERE),
        MPI_Scatterv(buffer_of(send), counts, offsets, type_of(send_type), buffer_of(receive), *receive_count,
                     type_of(receive_type), *root, comm_of(comm)))
FORTRAN(barrier, (COMM), (COMM_HERE), MPI_Barrier(comm_of(comm)))

/* The MPI's own function initializes its Fortran library as well. */
#define INITIALIZATION(symbol)               \
    ENTRY void symbol(int *error)            \
    {                                        \
        CALL_NEXT(symbol, (int *), (error)); \
        shim_bind();                        \
        shim_begin();                 \
    }
#define THREAD_INITIALIZATION(symbol)                                                \
    ENTRY void symbol(const int *required, int *provided, int *error)                \
    {                                                                                \
        CALL_NEXT(symbol, (const int *, int *, int *), (required, provided, error)); \
        shim_bind();                                                                \
        shim_begin();                                                         \
    }
#define FINALIZATION(symbol)                 \
    ENTRY void symbol(int *error)            \
    {                                        \
        shim_bind();                        \
        shim_end();                   \
        CALL_NEXT(symbol, (int *), (error)); \
    }
INITIALIZATION(mpi_init_)
INITIALIZATION(mpi_init_f08_)
THREAD_INITIALIZATION(mpi_init_thread_)
THREAD_INITIALIZATION(mpi_init_thread_f08_)
FINALIZATION(mpi_finalize_)
FINALIZATION(mpi_finalize_f08_)
