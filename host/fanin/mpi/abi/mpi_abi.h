/* The binary interface of the program's MPI. The shim is compiled without mpi.h: handles, which are pointers or ints by
 * family, are uintptr_t here, and constants are rows of tables. Record 0051 (docs/decisions) says why. */
#ifndef FANIN_MPI_FAMILY_H
#define FANIN_MPI_FAMILY_H
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t handle; /* of a communicator, datatype, op, request, group, info */

enum { UNDEFINED = -32766 }; /* MPI_UNDEFINED is the same everywhere */

struct mpi_abi {
    const char *name;      /* of the family, in settings */
    int speaks_pmi;        /* its launcher speaks PMI-1, not PMIx */
    int ints;              /* handles are ints: the upper half of a register is undefined */
    int in_place;          /* MPI_IN_PLACE */
    int any_source, any_tag, proc_null;
    int thread_multiple;   /* MPI_THREAD_MULTIPLE */
    int combiner_named, combiner_dup, combiner_contiguous;
    int combiner_f90_first, combiner_f90_last; /* of MPI_Type_create_f90_real and the like */
    int error_other, error_proc_failed, error_revoked; /* error classes; 0: none */
    const char *proc_failed_since; /* a function of versions with error_proc_failed only; NULL: all */
    int checks_aliases;    /* with checks of arguments, aliased buffers are an error */
    int status_source;     /* index of MPI_SOURCE in a status, in ints; MPI_TAG and MPI_ERROR follow */
    int status_bytes;      /* of a status */
    int status_ignore;     /* MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE */
};

/* Predefined handles that the shim uses. */
enum object {
    COMM_WORLD, COMM_SELF, COMM_NULL, ERRORS_RETURN, REQUEST_NULL, TYPE_NULL, TYPE_BYTE, TYPE_UINT64, TYPE_SHORT_INT,
    OP_SUM, OP_MAX, OBJECTS
};

/* Kinds of predefined datatypes, by the ops that MPI allows for them. */
enum kind { KIND_NONE, KIND_INTEGER, KIND_ADDRESS, KIND_FLOAT, KIND_COMPLEX, KIND_LOGICAL, KIND_BYTE, KIND_PAIR };

struct datatype {
    uint8_t code;          /* enum fanin_dtype; NONE: not on devices */
    uint8_t kind;          /* enum kind */
    uint8_t bytes;         /* of an element in an array, with its gap */
    uint8_t gap_start, gap; /* of a pair: bytes before its gap, and of the gap */
};

extern const struct mpi_abi *shim_abi; /* NULL before shim_identify_mpi */

/* Find the MPI of this process. Returns 0 if it is unknown. */
int shim_identify_mpi(void);

/* Whether the first `length` letters of `text` name a family. */
int shim_is_family(const char *text, size_t length);

/* The address of a function of the MPI, or NULL. */
void *shim_function(const char *name);

/* A handle from a register, without undefined bits. */
static inline handle clean(handle value)
{
    return shim_abi->ints ? (uint32_t)value : value;
}

static inline handle load_handle(const void *place)
{
    return shim_abi->ints ? *(const uint32_t *)place : *(const handle *)place;
}

static inline void store_handle(void *place, handle value)
{
    if (shim_abi->ints)
        *(uint32_t *)place = (uint32_t)value;
    else
        *(handle *)place = value;
}

static inline void *handle_at(const void *array, int index)
{
    return (char *)array + (size_t)index * (shim_abi->ints ? sizeof(int) : sizeof(handle));
}

static inline int is_in_place(const void *buffer)
{
    return (intptr_t)buffer == shim_abi->in_place;
}

handle shim_handle(enum object object);

/* The error class of a lost rank, or, if this MPI has none, of other errors. */
int shim_error_proc_failed(void);

/* The predefined datatype of a handle, or NULL. */
const struct datatype *shim_datatype(handle type);

/* The enum fanin_op of a predefined op, or 0. */
uint8_t shim_op(handle op);

/* Whether MPI and devices compute an op over a kind of datatype. */
int shim_op_takes(uint8_t op, uint8_t kind);
#endif
