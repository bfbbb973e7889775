/* Every collective that devices do, against the MPI's on the same data, for which the order of additions does not
 * matter: no bit may differ. Prints differences; exit code 1 if there are any. */
#include <mpi.h>
#include "plain_mpi.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, tried, wrong;
static char *in, *first, *second, *out;
static int counts[64], offsets[64];

struct type {
    const char *name;
    MPI_Datatype type;
    char family;               /* i: integer, f: float, c: complex, l: logical, b: byte, p: pair */
};

struct op {
    const char *name;
    MPI_Op op;
    const char *families;
};

/* Small integers, so that sums and products of floats are exact; pairs get an index, too. */
static void fill(void *memory, const struct type *type, size_t elements, unsigned seed)
{
    static const uint16_t halves[] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500}; /* -2 to 5 */
    int size;
    MPI_Aint lower, extent;

    PMPI_Type_size(type->type, &size);
    PMPI_Type_get_extent(type->type, &lower, &extent);
    memset(memory, 0, elements * (size_t)extent);
    for (size_t i = 0; i < elements; i++) {
        char *place = (char *)memory + i * (size_t)extent;
        unsigned value = (seed = seed * 1103515245u + 12345u) >> 16 & 7;
        if (type->family == 'f' && size == 2)
            *(uint16_t *)place = halves[value];
        else if (type->family == 'f' && size == 4)
            *(float *)place = (float)value - 2;
        else if (type->family == 'f')
            *(double *)place = (double)value - 2;
        else if (type->family == 'c' && size == 8)
            ((float *)place)[0] = (float)value, ((float *)place)[1] = (float)(value ^ 3);
        else if (type->family == 'c')
            ((double *)place)[0] = value, ((double *)place)[1] = (double)(value ^ 3);
        else if (type->family == 'l')
            *place = (char)(value & 1);
        else if (type->family == 'p' && type->type == MPI_FLOAT_INT)
            *(float *)place = (float)value, ((int *)place)[1] = (int)(seed >> 20 & 15);
        else if (type->family == 'p' && type->type == MPI_DOUBLE_INT)
            *(double *)place = value, ((int *)place)[2] = (int)(seed >> 20 & 15);
        else if (type->family == 'p')
            *place = (char)value, *(int *)(place + (extent > 8 ? 8 : 4)) = (int)(seed >> 20 & 15);
        else if (type->family == 'i' && size < 4)
            *place = (char)(value & 3); /* small sums: some MPIs saturate */
        else
            for (int byte = 0; byte < size; byte++)
                place[byte] = (char)(seed >> (8 + byte % 3 * 4));
        if (type->family == 'i')
            place[size - 1] &= 0x3f; /* some MPIs take large unsigned numbers for negative ones */
    }
}

/* Compare after MPI_Pack, without gaps. */
static void compare(const char *what, const char *name, MPI_Datatype type, int elements)
{
    int bytes, position = 0, other = 0;

    PMPI_Pack_size(elements, type, MPI_COMM_SELF, &bytes);
    char *one = calloc((size_t)bytes + 1, 1), *two = calloc((size_t)bytes + 1, 1);
    PMPI_Pack(first, elements, type, one, bytes, &position, MPI_COMM_SELF);
    PMPI_Pack(second, elements, type, two, bytes, &other, MPI_COMM_SELF);
    tried++;
    if (memcmp(one, two, (size_t)bytes) && wrong++ < 10)
        fprintf(stderr, "rank %d of %d: %s of %d %s differs\n", rank, ranks, what, elements, name);
    free(one);
    free(two);
}

static size_t room;

/* Clear the memory for the next call, and some behind it. */
static void clear(size_t bytes)
{
    bytes = bytes + 4096 < room ? bytes + 4096 : room;
    memset(first, 0x55, bytes);
    memset(second, 0x55, bytes);
}

/* The same into `first` by the shim and into `second` by the MPI. */
#define BOTH(row, elements, call)                    \
    do {                                             \
        out = first, MPI_##call;                     \
        out = second, PMPI_##call;                   \
        compare(#call, (row)->name, (row)->type, elements); \
        clear(16 * (size_t)(elements));              \
    } while (0)

/* The same in place. */
#define IN_PLACE(row, elements, call)            \
    do {                                          \
        fill(first, row, (size_t)(elements), 7u + (unsigned)rank);  \
        fill(second, row, (size_t)(elements), 7u + (unsigned)rank); \
        BOTH(row, elements, call);               \
    } while (0)

#define NONBLOCKING(row, elements, call)                     \
    do {                                                     \
        MPI_Request request;                                 \
        out = first, MPI_##call;                             \
        MPI_Wait(&request, MPI_STATUS_IGNORE);               \
        out = second, PMPI_##call;                           \
        PMPI_Wait(&request, MPI_STATUS_IGNORE);              \
        compare(#call, (row)->name, (row)->type, elements); \
        clear(16 * (size_t)(elements));                      \
    } while (0)

#define WORLD MPI_COMM_WORLD

static void allreductions(const struct type *row, MPI_Op op, int count)
{
    MPI_Datatype type = row->type;

    fill(in, row, (size_t)count, 99u + (unsigned)rank);
    BOTH(row, count, Allreduce(in, out, count, type, op, WORLD));
    IN_PLACE(row, count, Allreduce(MPI_IN_PLACE, out, count, type, op, WORLD));
}

static void reductions(const struct type *row, MPI_Op op, int count)
{
    MPI_Datatype type = row->type;
    int total = count * ranks;

    allreductions(row, op, count);
    fill(in, row, (size_t)total, 99u + (unsigned)rank);
    NONBLOCKING(row, count, Iallreduce(in, out, count, type, op, WORLD, &request));
    for (int root = 0; root < ranks; root += ranks - 1) {
        BOTH(row, count, Reduce(in, out, count, type, op, root, WORLD));
        if (rank == root)
            IN_PLACE(row, count, Reduce(MPI_IN_PLACE, out, count, type, op, root, WORLD));
        else
            BOTH(row, count, Reduce(in, NULL, count, type, op, root, WORLD));
        NONBLOCKING(row, count, Ireduce(in, out, count, type, op, root, WORLD, &request));
    }
    BOTH(row, count, Reduce_scatter_block(in, out, count, type, op, WORLD));
    fill(first, row, (size_t)count, 7u + (unsigned)rank);
    fill(second, row, (size_t)count, 7u + (unsigned)rank);
    BOTH(row, count / ranks, Reduce_scatter_block(MPI_IN_PLACE, out, count / ranks, type, op, WORLD));
    NONBLOCKING(row, count, Ireduce_scatter_block(in, out, count, type, op, WORLD, &request));
    for (int i = 0, left = total; i < ranks; i++, left -= counts[i - 1])
        counts[i] = i == ranks - 1 ? left : i % 2 ? count / 3 : 0;
    BOTH(row, counts[rank], Reduce_scatter(in, out, counts, type, op, WORLD));
    NONBLOCKING(row, counts[rank], Ireduce_scatter(in, out, counts, type, op, WORLD, &request));
    for (int i = 0; i < ranks; i++)
        counts[i] = count;
    BOTH(row, count, Reduce_scatter(in, out, counts, type, op, WORLD));
}

static void all_reductions(int count)
{
    static const struct op ops[] = {{"sum", MPI_SUM, "ifc"}, {"prod", MPI_PROD, "if"}, {"min", MPI_MIN, "if"},
                                    {"max", MPI_MAX, "if"}, {"land", MPI_LAND, "il"}, {"lor", MPI_LOR, "il"},
                                    {"lxor", MPI_LXOR, "il"}, {"band", MPI_BAND, "ib"}, {"bor", MPI_BOR, "ib"},
                                    {"bxor", MPI_BXOR, "ib"}, {"minloc", MPI_MINLOC, "p"}, {"maxloc", MPI_MAXLOC, "p"}};
    const struct type types[] = {
        {"char", MPI_CHAR, 'i'}, {"signed char", MPI_SIGNED_CHAR, 'i'}, {"unsigned char", MPI_UNSIGNED_CHAR, 'i'},
        {"short", MPI_SHORT, 'i'}, {"unsigned short", MPI_UNSIGNED_SHORT, 'i'}, {"int", MPI_INT, 'i'},
        {"unsigned", MPI_UNSIGNED, 'i'},
#ifdef MPIX_C_FLOAT16
        {"half", MPIX_C_FLOAT16, 'f'},
#endif
        {"long", MPI_LONG, 'i'}, {"unsigned long", MPI_UNSIGNED_LONG, 'i'}, {"int64", MPI_INT64_T, 'i'},
        {"float", MPI_FLOAT, 'f'}, {"double", MPI_DOUBLE, 'f'}, {"float complex", MPI_C_FLOAT_COMPLEX, 'c'},
        {"double complex", MPI_C_DOUBLE_COMPLEX, 'c'}, {"bool", MPI_C_BOOL, 'l'}, {"byte", MPI_BYTE, 'b'},
        {"float and int", MPI_FLOAT_INT, 'p'}, {"double and int", MPI_DOUBLE_INT, 'p'},
        {"long and int", MPI_LONG_INT, 'p'}, {"short and int", MPI_SHORT_INT, 'p'}, {"two ints", MPI_2INT, 'p'}};

    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
            if (strchr(ops[o].families, types[t].family))
                allreductions(&types[t], ops[o].op, count);
}

/* Blocks with gaps, in descending order if `backwards`. */
static int uneven(int count, int backwards)
{
    int end = 0;

    for (int i = 0; i < ranks; i++) {
        int block = backwards ? ranks - 1 - i : i;
        counts[block] = block % 3 == 1 ? 0 : count / (block + 1);
        offsets[block] = end;
        end += counts[block] + (backwards ? 2 : 0);
    }
    return end;
}

static void movements(const struct type *row, int count)
{
    MPI_Datatype type = row->type;
    int total = count * ranks, last = ranks - 1, end;

    fill(in, row, (size_t)total + 2 * (size_t)ranks, 5u + (unsigned)rank);
    BOTH(row, total, Allgather(in, count, type, out, count, type, WORLD));
    IN_PLACE(row, total, Allgather(MPI_IN_PLACE, 0, type, out, count, type, WORLD));
    NONBLOCKING(row, total, Iallgather(in, count, type, out, count, type, WORLD, &request));
    IN_PLACE(row, count, Bcast(out, count, type, last, WORLD));
    BOTH(row, total, Gather(in, count, type, out, count, type, last, WORLD));
    BOTH(row, count, Scatter(in, count, type, out, count, type, last, WORLD));
    if (rank == last) {
        IN_PLACE(row, total, Gather(MPI_IN_PLACE, 0, type, out, count, type, last, WORLD));
        BOTH(row, count, Scatter(in, count, type, MPI_IN_PLACE, count, type, last, WORLD));
    } else {
        IN_PLACE(row, total, Gather(in, count, type, NULL, 0, type, last, WORLD));
        BOTH(row, count, Scatter(NULL, 0, type, out, count, type, last, WORLD));
    }
    NONBLOCKING(row, total, Igather(in, count, type, out, count, type, 0, WORLD, &request));
    NONBLOCKING(row, count, Iscatter(in, count, type, out, count, type, 0, WORLD, &request));
    for (int i = 0; i < ranks; i++)
        counts[i] = count, offsets[i] = (ranks - 1 - i) * count;
    BOTH(row, total, Allgatherv(in, count, type, out, counts, offsets, type, WORLD));
    for (int backwards = 0; backwards < 2; backwards++) {
        end = uneven(count, backwards);
        BOTH(row, end, Allgatherv(in, counts[rank], type, out, counts, offsets, type, WORLD));
        NONBLOCKING(row, end, Iallgatherv(in, counts[rank], type, out, counts, offsets, type, WORLD, &request));
        BOTH(row, end, Gatherv(in, counts[rank], type, out, counts, offsets, type, last, WORLD));
        NONBLOCKING(row, end, Igatherv(in, counts[rank], type, out, counts, offsets, type, 0, WORLD, &request));
        BOTH(row, counts[rank], Scatterv(in, counts, offsets, type, out, counts[rank], type, last, WORLD));
        NONBLOCKING(row, counts[rank], Iscatterv(in, counts, offsets, type, out, counts[rank], type, 0, WORLD, &request));
    }
}

/* Each rank describes the same data in its own way, as MPI allows. */
static void own_types(int count)
{
    const struct type floats = {"float", MPI_FLOAT, 'f'};
    MPI_Datatype spread, backwards, mine;
    int where[] = {1, 0}, blocks[] = {1, 1};

    PMPI_Type_vector(count, 1, 2, MPI_FLOAT, &spread);
    PMPI_Type_commit(&spread);
    PMPI_Type_indexed(2, blocks, where, MPI_FLOAT, &backwards);
    PMPI_Type_commit(&backwards);
    mine = rank % 3 == 0 ? MPI_FLOAT : rank % 3 == 1 ? spread : backwards;
    int number = rank % 3 == 0 ? 2 * count : rank % 3 == 1 ? 2 : count;
    fill(in, &floats, 8 * (size_t)count, 3u + (unsigned)rank);
    for (int root = 0; root < ranks; root++) {
        IN_PLACE(&floats, 4 * count, Bcast(out, number, mine, root, WORLD));
        BOTH(&floats, 4 * count, Gather(in, number, mine, out, 2 * count, MPI_FLOAT, root, WORLD));
        BOTH(&floats, 4 * count, Scatter(in, 2 * count, MPI_FLOAT, out, number, mine, root, WORLD));
        NONBLOCKING(&floats, 4 * count, Iscatter(in, 2 * count, MPI_FLOAT, out, number, mine, root, WORLD, &request));
    }
    BOTH(&floats, 4 * count, Allgather(in, number, mine, out, 2 * count, MPI_FLOAT, WORLD));
    PMPI_Type_free(&spread);
    PMPI_Type_free(&backwards);
}

int main(int argc, char **argv)
{
    const struct type shorts = {"short", MPI_SHORT, 'i'}, doubles = {"double", MPI_DOUBLE, 'f'};
    const struct type pairs = {"double and int", MPI_DOUBLE_INT, 'p'};
    long longest = argc > 1 ? atol(argv[1]) : 1 << 20;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    room = (size_t)(longest + 4096 * 16) * (size_t)(ranks + 1);
    in = malloc(room);
    first = malloc(room);
    second = malloc(room);
    clear(room);
    all_reductions(19);
    all_reductions(9001); /* several segments and a part, even of bytes */
    for (long bytes = 2; bytes <= longest; bytes = bytes * 5 + 6) {
        reductions(&doubles, MPI_SUM, (int)(bytes / 8));
        reductions(&pairs, MPI_MINLOC, (int)(bytes / 16));
        movements(&shorts, (int)(bytes / 2));
        movements(&doubles, (int)(bytes / 8));
        if (bytes >= 32) /* without data, MPIs disagree on ranks with different types */
            own_types((int)(bytes / 32));
    }
    PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d comparisons of each rank, %d wrong\n", tried, wrong);
    MPI_Finalize();
    return wrong != 0;
}
