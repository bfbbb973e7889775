/* The MPI that the program has loaded: which family of binary interfaces it belongs to, and what that fixes.
 *
 * There is no mpi.h here. Handles are pointers or ints, by family, and travel as uintptr_t. What a header would have
 * given as constants are rows of tables.
 */
#ifndef FANIN_MPI_FAMILY_H
#define FANIN_MPI_FAMILY_H
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t handle; /* of a communicator, datatype, op, request, group, info */

enum { UNDEFINED = -32766 }; /* MPI_UNDEFINED is the same everywhere */

struct mpi_abi {
    const char *name;
    const char *library;   /* its soname */
    int ints;              /* handles are ints, of which the upper half of a register holds nothing */
    int in_place;          /* MPI_IN_PLACE */
    int any_source, any_tag, proc_null;
    int combiner_named, combiner_dup, combiner_contiguous;
    int error_other, error_proc_failed; /* error classes; 0: it has none */
    const char *proc_failed_since;      /* a function of the versions that have error_proc_failed; NULL: all have it */
    int fortran_past_c;    /* its Fortran library does not call the entries of C */
    int may_refuse_aliases; /* calls whose two buffers are one: an error of their communicator, if it checks arguments */
    int status_source;     /* place of MPI_SOURCE in a status, in ints; MPI_TAG and MPI_ERROR follow */
    int status_bytes;      /* of a status */
    int status_ignore;     /* MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE */
};

/* Handles of the family at hand that the shim names itself. */
enum object {
    COMM_WORLD, COMM_SELF, COMM_NULL, ERRORS_RETURN, REQUEST_NULL, TYPE_NULL, TYPE_BYTE, TYPE_UINT64, TYPE_SHORT_INT,
    OP_SUM, OBJECTS
};

/* What a predefined datatype is to a device, and which ops MPI allows for it. */
enum kind { KIND_NONE, KIND_INTEGER, KIND_ADDRESS, KIND_FLOAT, KIND_COMPLEX, KIND_LOGICAL, KIND_BYTE, KIND_PAIR };

struct datatype {
    uint8_t code;          /* enum fanin_dtype; NONE: moved, never computed with */
    uint8_t kind;          /* enum kind */
    uint8_t bytes;         /* of an element, as it lies in an array */
};

extern const struct mpi_abi *shim_abi; /* NULL until shim_identify_mpi has found it */

/* Find the MPI of this process, and its functions. Returns 0 if it is none that is known. */
int shim_identify_mpi(void);

/* The address of a symbol of the MPI: the program's own first, which may hold a copy of a library's data. */
void *shim_symbol(const char *name);

/* A handle as it came in a register or a place in memory: bits that mean nothing are cleared. */
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

/* Element `index` of an array of handles. */
static inline void *handle_at(const void *array, int index)
{
    return (char *)array + (size_t)index * (shim_abi->ints ? sizeof(int) : sizeof(handle));
}

static inline int is_in_place(const void *buffer)
{
    return (intptr_t)buffer == shim_abi->in_place;
}

handle shim_handle(enum object object);

/* The error class of a lost rank; that of other errors if this version of the MPI has none. */
int shim_error_proc_failed(void);

/* The predefined datatype of a handle; NULL if it is another. */
const struct datatype *shim_datatype(handle type);

/* The enum fanin_op of a predefined op; 0 if it is another. */
uint8_t shim_op(handle op);

/* Whether MPI and the devices compute an op over a kind of datatype. */
int shim_op_takes(uint8_t op, uint8_t kind);
#endif
