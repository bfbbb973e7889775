/* The known MPIs and their predefined handles, with a column for each family. */
#define _GNU_SOURCE
#include "abi/mpi_abi.h"
#include "abi.h"
#include "abi/pmpi.h"
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { STANDARD, OPEN_MPI, MPICH }; /* rows of the next table, columns of those below */

static const struct mpi_abi families[] = {
    [STANDARD] = {.name = "mpi-abi", .speaks_pmi = 1, .in_place = 1, .any_source = -1, .any_tag = -2, .proc_null = -3,
                  .thread_multiple = 4096, .combiner_named = 101, .combiner_dup = 102, .combiner_contiguous = 103,
                  .combiner_f90_first = 113, .combiner_f90_last = 115, .error_other = 16, .status_bytes = 32},
    [OPEN_MPI] = {.name = "open-mpi", .in_place = 1, .any_source = -1, .any_tag = -1, .proc_null = -2,
                  .thread_multiple = 3, .combiner_named = 0, .combiner_dup = 1, .combiner_contiguous = 2,
                  .combiner_f90_first = 14, .combiner_f90_last = 16, .error_other = 16, .error_proc_failed = 75,
                  .error_revoked = 77, .proc_failed_since = "PMPIX_Comm_revoke", .status_bytes = 24},
    [MPICH] = {.name = "mpich", .speaks_pmi = 1, .ints = 1, .in_place = -1, .any_source = -2, .any_tag = -1,
               .proc_null = -1, .thread_multiple = 3, .combiner_named = 1, .combiner_dup = 2, .combiner_contiguous = 3,
               .combiner_f90_first = 15, .combiner_f90_last = 17, .error_other = 15, .error_proc_failed = 101,
               .checks_aliases = 1, .status_source = 2, .status_bytes = 20, .status_ignore = 1},
};

static const struct {
    const char *soname;
    int family;
} libraries[] = {
    {"libmpi_abi.so.1", STANDARD}, {"libmpi.so.40", OPEN_MPI}, {"libmpi.so.12", MPICH}, {"libmpich.so.12", MPICH}};

/* A predefined handle: its value with the standard ABI and with MPICH, its symbol with Open MPI. */
struct constant {
    uint32_t standard, mpich;
    const char *open_mpi;
};

static const struct constant objects[OBJECTS] = {
    [COMM_WORLD] = {0x101, 0x44000000, "ompi_mpi_comm_world"},
    [COMM_SELF] = {0x102, 0x44000001, "ompi_mpi_comm_self"},
    [COMM_NULL] = {0x100, 0x04000000, "ompi_mpi_comm_null"},
    [ERRORS_RETURN] = {0x143, 0x54000001, "ompi_mpi_errors_return"},
    [REQUEST_NULL] = {0x180, 0x2c000000, "ompi_request_null"},
    [TYPE_NULL] = {0x200, 0x0c000000, "ompi_mpi_datatype_null"},
    [TYPE_BYTE] = {0x247, 0x4c00010d, "ompi_mpi_byte"},
    [TYPE_UINT64] = {0x259, 0x4c00083e, "ompi_mpi_uint64_t"},
    [OP_SUM] = {0x21, 0x58000003, "ompi_mpi_op_sum"},
    [OP_MAX] = {0x23, 0x58000001, "ompi_mpi_op_max"},
    [TYPE_SHORT_INT] = {0x22c, 0x8c000003, "ompi_mpi_short_int"},
};

static const struct {
    uint8_t op;
    struct constant constant;
} ops[] = {
    {FANIN_OP_SUM, {0x21, 0x58000003, "ompi_mpi_op_sum"}},
    {FANIN_OP_MIN, {0x22, 0x58000002, "ompi_mpi_op_min"}},
    {FANIN_OP_MAX, {0x23, 0x58000001, "ompi_mpi_op_max"}},
    {FANIN_OP_PROD, {0x24, 0x58000004, "ompi_mpi_op_prod"}},
    {FANIN_OP_BAND, {0x28, 0x58000006, "ompi_mpi_op_band"}},
    {FANIN_OP_BOR, {0x29, 0x58000008, "ompi_mpi_op_bor"}},
    {FANIN_OP_BXOR, {0x2a, 0x5800000a, "ompi_mpi_op_bxor"}},
    {FANIN_OP_LAND, {0x30, 0x58000005, "ompi_mpi_op_land"}},
    {FANIN_OP_LOR, {0x31, 0x58000007, "ompi_mpi_op_lor"}},
    {FANIN_OP_LXOR, {0x32, 0x58000009, "ompi_mpi_op_lxor"}},
    {FANIN_OP_MINLOC, {0x38, 0x5800000b, "ompi_mpi_op_minloc"}},
    {FANIN_OP_MAXLOC, {0x39, 0x5800000c, "ompi_mpi_op_maxloc"}},
};

/* The ops that MPI defines for each kind of datatype. Bits are enum fanin_op. Other ops are left to the MPI. */
#define OP(name) (1u << FANIN_OP_##name)
#define ORDERED (OP(SUM) | OP(PROD) | OP(MIN) | OP(MAX))
#define LOGICAL (OP(LAND) | OP(LOR) | OP(LXOR))
#define BITWISE (OP(BAND) | OP(BOR) | OP(BXOR))

static const uint32_t takes[] = {
    [KIND_NONE] = 0,
    [KIND_INTEGER] = ORDERED | LOGICAL | BITWISE,
    [KIND_ADDRESS] = ORDERED | BITWISE, /* no logical ops in MPI; also for Fortran's integers */
    [KIND_FLOAT] = ORDERED,
    [KIND_COMPLEX] = OP(SUM), /* devices do not multiply complex numbers */
    [KIND_LOGICAL] = LOGICAL,
    [KIND_BYTE] = BITWISE,
    [KIND_PAIR] = OP(MINLOC) | OP(MAXLOC),
};

struct row {
    struct datatype type;
    struct constant constant;
};

#define TYPE(code, kind, bytes) {FANIN_DTYPE_##code, KIND_##kind, bytes, 0, 0}
#define PAIR(code, bytes, gap_start, gap) {FANIN_DTYPE_##code, KIND_PAIR, bytes, gap_start, gap}
/* In the standard MPI_CHAR is text, but all MPIs compute with it as C does, and benchmarks rely on that. */
#define CHAR_CODE (CHAR_MIN < 0 ? FANIN_DTYPE_I8 : FANIN_DTYPE_U8)

static const struct row types[] = {
    {TYPE(I8, INTEGER, 1), {0x244, 0x4c000118, "ompi_mpi_signed_char"}},
    {TYPE(U8, INTEGER, 1), {0x245, 0x4c000102, "ompi_mpi_unsigned_char"}},
    {TYPE(I16, INTEGER, 2), {0x208, 0x4c000203, "ompi_mpi_short"}},
    {TYPE(U16, INTEGER, 2), {0x20c, 0x4c000204, "ompi_mpi_unsigned_short"}},
    {TYPE(I32, INTEGER, 4), {0x209, 0x4c000405, "ompi_mpi_int"}},
    {TYPE(U32, INTEGER, 4), {0x20d, 0x4c000406, "ompi_mpi_unsigned"}},
    {TYPE(I64, INTEGER, 8), {0x20a, 0x4c000807, "ompi_mpi_long"}},
    {TYPE(U64, INTEGER, 8), {0x20e, 0x4c000808, "ompi_mpi_unsigned_long"}},
    {TYPE(I64, INTEGER, 8), {0x20b, 0x4c000809, "ompi_mpi_long_long_int"}},
    {TYPE(U64, INTEGER, 8), {0x20f, 0x4c000819, "ompi_mpi_unsigned_long_long"}},
    {TYPE(I8, INTEGER, 1), {0x240, 0x4c000137, "ompi_mpi_int8_t"}},
    {TYPE(U8, INTEGER, 1), {0x241, 0x4c00013b, "ompi_mpi_uint8_t"}},
    {TYPE(I16, INTEGER, 2), {0x248, 0x4c000238, "ompi_mpi_int16_t"}},
    {TYPE(U16, INTEGER, 2), {0x249, 0x4c00023c, "ompi_mpi_uint16_t"}},
    {TYPE(I32, INTEGER, 4), {0x250, 0x4c000439, "ompi_mpi_int32_t"}},
    {TYPE(U32, INTEGER, 4), {0x251, 0x4c00043d, "ompi_mpi_uint32_t"}},
    {TYPE(I64, INTEGER, 8), {0x258, 0x4c00083a, "ompi_mpi_int64_t"}},
    {TYPE(U64, INTEGER, 8), {0x259, 0x4c00083e, "ompi_mpi_uint64_t"}},
    {TYPE(F16, FLOAT, 2), {0, 0x4c000246, "ompi_mpi_short_float"}},
    {TYPE(F32, FLOAT, 4), {0x210, 0x4c00040a, "ompi_mpi_float"}},
    {TYPE(F64, FLOAT, 8), {0x214, 0x4c00080b, "ompi_mpi_double"}},
    {TYPE(C64, COMPLEX, 8), {0x212, 0x4c000840, "ompi_mpi_c_float_complex"}},
    {TYPE(C128, COMPLEX, 16), {0x216, 0x4c001041, "ompi_mpi_c_double_complex"}},
    {TYPE(C64, COMPLEX, 8), {0x213, 0x4c000834, "ompi_mpi_cxx_cplex"}},
    {TYPE(C128, COMPLEX, 16), {0x217, 0x4c001035, "ompi_mpi_cxx_dblcplex"}},
    {TYPE(BOOL, LOGICAL, 1), {0x238, 0x4c00013f, "ompi_mpi_c_bool"}},
    {TYPE(BOOL, LOGICAL, 1), {0x239, 0x4c000133, "ompi_mpi_cxx_bool"}},
    {TYPE(U8, BYTE, 1), {0x247, 0x4c00010d, "ompi_mpi_byte"}},
    {{CHAR_CODE, KIND_INTEGER, 1, 0, 0}, {0x243, 0x4c000101, "ompi_mpi_char"}},
    {TYPE(NONE, NONE, 1), {0x21e, 0x4c00011a, "ompi_mpi_character"}},
    {TYPE(I64, ADDRESS, 8), {0x201, 0x4c000843, "ompi_mpi_aint"}},
    {TYPE(I64, ADDRESS, 8), {0x203, 0x4c000844, "ompi_mpi_offset"}},
    {TYPE(I64, ADDRESS, 8), {0x202, 0x4c000845, "ompi_mpi_count"}},
    {TYPE(I32, ADDRESS, 4), {0x219, 0x4c00041b, "ompi_mpi_integer"}},
    {TYPE(I8, ADDRESS, 1), {0x2c1, 0x4c00012d, "ompi_mpi_integer1"}},
    {TYPE(I16, ADDRESS, 2), {0x2c9, 0x4c00022f, "ompi_mpi_integer2"}},
    {TYPE(I32, ADDRESS, 4), {0x2d1, 0x4c000430, "ompi_mpi_integer4"}},
    {TYPE(I64, ADDRESS, 8), {0x2d9, 0x4c000831, "ompi_mpi_integer8"}},
    {TYPE(F32, FLOAT, 4), {0x21a, 0x4c00041c, "ompi_mpi_real"}},
    {TYPE(F32, FLOAT, 4), {0x2d2, 0x4c000427, "ompi_mpi_real4"}},
    {TYPE(F64, FLOAT, 8), {0x2da, 0x4c000829, "ompi_mpi_real8"}},
    {TYPE(F64, FLOAT, 8), {0x21c, 0x4c00081f, "ompi_mpi_dblprec"}},
    {TYPE(C64, COMPLEX, 8), {0x21b, 0x4c00081e, "ompi_mpi_cplex"}},
    {TYPE(C64, COMPLEX, 8), {0x2db, 0x4c000828, "ompi_mpi_complex8"}},
    {TYPE(C128, COMPLEX, 16), {0x21d, 0x4c001022, "ompi_mpi_dblcplex"}},
    {TYPE(C128, COMPLEX, 16), {0x2e3, 0x4c00102a, "ompi_mpi_complex16"}},
    {TYPE(I32, LOGICAL, 4), {0x218, 0x4c00041d, "ompi_mpi_logical"}},
    {PAIR(F32_I32, 8, 0, 0), {0x228, 0x8c000000, "ompi_mpi_float_int"}},
    {PAIR(F64_I32, 16, 12, 4), {0x229, 0x8c000001, "ompi_mpi_double_int"}},
    {PAIR(I64_I32, 16, 12, 4), {0x22a, 0x8c000002, "ompi_mpi_long_int"}},
    {PAIR(I32_I32, 8, 0, 0), {0x22b, 0x4c000816, "ompi_mpi_2int"}},
    {PAIR(I16_I32, 8, 2, 2), {0x22c, 0x8c000003, "ompi_mpi_short_int"}},
    {PAIR(I32_I32, 8, 0, 0), {0x232, 0x4c000820, "ompi_mpi_2integer"}},
};

#define LENGTH(table) (sizeof(table) / sizeof((table)[0]))
#define BUCKETS 256 /* a power of two, well above the number of predefined handles */

const struct mpi_abi *shim_abi;
static void *library;
static handle object_handles[OBJECTS];
static struct {
    handle type;
    const struct datatype *datatype;
} buckets[BUCKETS];
static handle op_handles[LENGTH(ops)];

void *shim_function(const char *name)
{
    return dlsym(library, name);
}

/* The address of the MPI's data; first the program's own symbol, which may be a copy relocation. */
static void *data_of(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    return found ? found : dlsym(library, name);
}

static handle value_of(const struct constant *constant)
{
    if (shim_abi->ints)
        return constant->mpich;
    return shim_abi == &families[OPEN_MPI] ? (handle)data_of(constant->open_mpi) : constant->standard;
}

static unsigned bucket_of(handle type)
{
    return (unsigned)((type * 0x9e3779b97f4a7c15ull) >> 56) % BUCKETS;
}

/* Open MPI lacks the symbols of types that its compilers lacked: then the handle is 0. */
static void enter_types(void)
{
    for (size_t i = 0; i < LENGTH(types); i++) {
        handle type = value_of(&types[i].constant);
        unsigned place = bucket_of(type);
        if (!type)
            continue;
        while (buckets[place].type)
            place = (place + 1) % BUCKETS;
        buckets[place].type = type;
        buckets[place].datatype = &types[i].type;
    }
}

int shim_identify_mpi(void)
{
    if (shim_abi)
        return 1;
    for (size_t i = 0; i < LENGTH(libraries) && !library; i++) {
        library = dlopen(libraries[i].soname, RTLD_LAZY | RTLD_NOLOAD);
        if (library)
            shim_abi = &families[libraries[i].family];
    }
    if (!shim_abi)
        return 0;
    for (int object = 0; object < OBJECTS; object++)
        object_handles[object] = value_of(&objects[object]);
    for (size_t i = 0; i < LENGTH(ops); i++)
        op_handles[i] = value_of(&ops[i].constant);
    enter_types();
    return 1;
}

int shim_is_family(const char *text, size_t length)
{
    for (size_t i = 0; i < LENGTH(families); i++)
        if (strlen(families[i].name) == length && !strncasecmp(text, families[i].name, length))
            return 1;
    return 0;
}

handle shim_handle(enum object object)
{
    return object_handles[object];
}

int shim_error_proc_failed(void)
{
    const char *function = shim_abi->proc_failed_since;

    if (!shim_abi->error_proc_failed || (function && !shim_function(function)))
        return shim_abi->error_other;
    return shim_abi->error_proc_failed;
}

const struct datatype *shim_datatype(handle type)
{
    unsigned place = bucket_of(type);

    while (buckets[place].type && buckets[place].type != type)
        place = (place + 1) % BUCKETS;
    return type ? buckets[place].datatype : NULL;
}

uint8_t shim_op(handle op)
{
    for (size_t i = 0; i < LENGTH(ops); i++)
        if (op && op_handles[i] == op)
            return ops[i].op;
    return FANIN_OP_NONE;
}

int shim_op_takes(uint8_t op, uint8_t kind)
{
    return takes[kind] >> op & 1;
}
