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

#define X(name, lower, TABLE, collective) extern int MPI_##name(TABLE##_PARAMETERS(SHORT));
COLLECTIVES(X)
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

static int number_of(const int *number)
{
    return *number;
}

/* In Fortran every parameter is an address. What it is in C depends on its kind. */
#define ADDRESS(kind, name, field) void *name
#define IN_C(kind, name, field) kind##_IN_C(name)
#define SOURCE_IN_C(name) buffer_of(name)
#define RESULT_IN_C(name) buffer_of(name)
#define COUNT_IN_C(name) number_of(name)
#define COUNTS_IN_C(name) name
#define OFFSETS_IN_C(name) name
#define TYPE_IN_C(name) open_mpi.type(number_of(name))
#define OP_IN_C(name) open_mpi.op(number_of(name))
#define ROOT_IN_C(name) number_of(name)
#define COMM_IN_C(name) open_mpi.comm(number_of(name))

#define X(name, lower, TABLE, collective)                                                                           \
    ENTRY void mpi_##lower##_(TABLE##_PARAMETERS(ADDRESS), int *error)                                              \
    {                                                                                                               \
        if (converts())                                                                                             \
            *error = MPI_##name(TABLE##_PARAMETERS(IN_C));                                                          \
        else                                                                                                        \
            CALL_NEXT(mpi_##lower##_, (TABLE##_PARAMETERS(ADDRESS), int *error), (TABLE##_PARAMETERS(NAME), error)); \
    }                                                                                                               \
    ENTRY void ompi_##lower##_f(TABLE##_PARAMETERS(ADDRESS), int *error)                                            \
    {                                                                                                               \
        converts();                                                                                                 \
        *error = MPI_##name(TABLE##_PARAMETERS(IN_C));                                                              \
    }
COLLECTIVES(X)
#undef X

/* The MPI's own function initializes its Fortran library as well. */
#define INITIALIZATION(symbol, parameters, arguments) \
    ENTRY void symbol parameters                      \
    {                                                 \
        CALL_NEXT(symbol, parameters, arguments);     \
        shim_bind();                                  \
        shim_begin();                                 \
    }
#define FINALIZATION(symbol)                          \
    ENTRY void symbol(int *error)                     \
    {                                                 \
        shim_bind();                                  \
        shim_end();                                   \
        CALL_NEXT(symbol, (int *), (error));          \
    }
INITIALIZATION(mpi_init_, (int *error), (error))
INITIALIZATION(mpi_init_f08_, (int *error), (error))
INITIALIZATION(mpi_init_thread_, (const int *required, int *provided, int *error), (required, provided, error))
INITIALIZATION(mpi_init_thread_f08_, (const int *required, int *provided, int *error), (required, provided, error))
FINALIZATION(mpi_finalize_)
FINALIZATION(mpi_finalize_f08_)
