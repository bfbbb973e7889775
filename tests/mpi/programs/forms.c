/* Every collective in every form (blocking, non-blocking, persistent; int and large counts), against the MPI's blocking
 * one. Forms that a header lacks are looked up by name, since the shim has all. Persistent ones are started twice, with
 * different data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include "plain_mpi.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static int rank, ranks, tried, wrong;
static double *in, *out, *expected;
static size_t room; /* bytes of each */
static int counts[MOST], offsets[MOST], own;
static MPI_Count large_counts[MOST];
static MPI_Aint large_offsets[MOST];

static void *form(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    if (!found) {
        fprintf(stderr, "there is no %s\n", name);
        exit(1);
    }
    return found;
}

static void fill(int round)
{
    for (size_t i = 0; i < room / sizeof *in; i++)
        in[i] = (double)((i * 7 + (size_t)(rank + round) * 13) % 1009);
    memset(out, 0x55, room);
}

static void compare(const char *name)
{
    tried++;
    if (memcmp(out, expected, room) && wrong++ < 10)
        fprintf(stderr, "rank %d of %d: %s differs\n", rank, ranks, name);
    memset(out, 0x55, room);
}

static void wait_for(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* The MPI's result for the data of a round; `call` writes it to `target`. */
#define EXPECT(round, call)          \
    do {                             \
        fill(round);                 \
        memset(expected, 0x55, room); \
        target = expected;           \
        PMPI_##call;                 \
        target = out;                \
    } while (0)

#define ONCE(name, types, ...)                                    \
    do {                                                          \
        ((int (*)(types))form("MPI_" #name))(__VA_ARGS__);        \
        compare(#name);                                           \
    } while (0)

#define WAITED(name, types, ...)                                                              \
    do {                                                                                      \
        MPI_Request request;                                                                  \
        ((int (*)(types, MPI_Request *))form("MPI_" #name))(__VA_ARGS__, &request);           \
        wait_for(&request);                                                                   \
        compare(#name);                                                                       \
    } while (0)

#define STARTED(name, types, ...)                                                                                    \
    do {                                                                                                             \
        ((int (*)(types, MPI_Info, MPI_Request *))form("MPI_" #name))(__VA_ARGS__, MPI_INFO_NULL, &requests[asked++]); \
    } while (0)

static void start(MPI_Request *request, const char *name)
{
    MPI_Start(request);
    wait_for(request);
    compare(name);
}

/* TYPES, ARGUMENTS: macros of the types of counts and displacements, and of their values. */
#define ALL_FORMS(name, iname, TYPES, ARGUMENTS)                                              \
    do {                                                                                      \
        double *target = out;                                                                 \
        MPI_Request requests[2];                                                              \
        int asked = 0;                                                                        \
        EXPECT(0, name(ARGUMENTS(counts, offsets, int)));                                     \
        ONCE(name, TYPES(int, int), ARGUMENTS(counts, offsets, int));                         \
        ONCE(name##_c, TYPES(MPI_Count, MPI_Aint), ARGUMENTS(large_counts, large_offsets, MPI_Count));   \
        WAITED(iname, TYPES(int, int), ARGUMENTS(counts, offsets, int));                      \
        WAITED(iname##_c, TYPES(MPI_Count, MPI_Aint), ARGUMENTS(large_counts, large_offsets, MPI_Count)); \
        STARTED(name##_init, TYPES(int, int), ARGUMENTS(counts, offsets, int));               \
        STARTED(name##_init_c, TYPES(MPI_Count, MPI_Aint), ARGUMENTS(large_counts, large_offsets, MPI_Count)); \
        for (int round = 0; round < 2; round++) {                                             \
            EXPECT(round, name(ARGUMENTS(counts, offsets, int)));                             \
            start(&requests[0], #name "_init");                                               \
            start(&requests[1], #name "_init_c");                                             \
        }                                                                                     \
        MPI_Request_free(&requests[0]);                                                       \
        MPI_Request_free(&requests[1]);                                                       \
    } while (0)

#define WORLD MPI_COMM_WORLD
#define REDUCED const void *, void *
#define MOVED(C) const void *, C, MPI_Datatype, void *, C, MPI_Datatype
#define ALLREDUCE_TYPES(C, O) REDUCED, C, MPI_Datatype, MPI_Op, MPI_Comm
#define REDUCE_TYPES(C, O) REDUCED, C, MPI_Datatype, MPI_Op, int, MPI_Comm
#define REDUCE_SCATTER_TYPES(C, O) REDUCED, const C *, MPI_Datatype, MPI_Op, MPI_Comm
#define BCAST_TYPES(C, O) void *, C, MPI_Datatype, int, MPI_Comm
#define ALLGATHER_TYPES(C, O) MOVED(C), MPI_Comm
#define GATHER_TYPES(C, O) MOVED(C), int, MPI_Comm
#define ALLGATHERV_TYPES(C, O) const void *, C, MPI_Datatype, void *, const C *, const O *, MPI_Datatype, MPI_Comm
#define GATHERV_TYPES(C, O) const void *, C, MPI_Datatype, void *, const C *, const O *, MPI_Datatype, int, MPI_Comm
#define SCATTERV_TYPES(C, O) const void *, const C *, const O *, MPI_Datatype, void *, C, MPI_Datatype, int, MPI_Comm

#define ALLREDUCE(n, d, C) in, target, (C)own, MPI_DOUBLE, MPI_SUM, WORLD
#define REDUCE(n, d, C) in, target, (C)own, MPI_DOUBLE, MPI_SUM, root, WORLD
#define REDUCE_SCATTER(n, d, C) in, target, n, MPI_DOUBLE, MPI_SUM, WORLD
#define ALLGATHER(n, d, C) in, (C)own, MPI_DOUBLE, target, (C)own, MPI_DOUBLE, WORLD
#define GATHER(n, d, C) in, (C)own, MPI_DOUBLE, target, (C)own, MPI_DOUBLE, root, WORLD
#define ALLGATHERV(n, d, C) in, n[rank], MPI_DOUBLE, target, n, d, MPI_DOUBLE, WORLD
#define GATHERV(n, d, C) in, n[rank], MPI_DOUBLE, target, n, d, MPI_DOUBLE, root, WORLD
#define SCATTERV(n, d, C) in, n, d, MPI_DOUBLE, target, n[rank], MPI_DOUBLE, root, WORLD
#define BCAST(n, d, C) rank == root ? in : target, (C)own, MPI_DOUBLE, root, WORLD

static void try_all(int count, int root)
{
    int end = 0;

    own = count;
    for (int i = 0; i < ranks; i++) {
        counts[i] = i == 1 ? 0 : count - i;
        offsets[i] = end + i;
        end += counts[i] + i;
        large_counts[i] = counts[i];
        large_offsets[i] = offsets[i];
    }
    ALL_FORMS(Allreduce, Iallreduce, ALLREDUCE_TYPES, ALLREDUCE);
    ALL_FORMS(Reduce, Ireduce, REDUCE_TYPES, REDUCE);
    ALL_FORMS(Reduce_scatter, Ireduce_scatter, REDUCE_SCATTER_TYPES, REDUCE_SCATTER);
    ALL_FORMS(Reduce_scatter_block, Ireduce_scatter_block, ALLREDUCE_TYPES, ALLREDUCE);
    ALL_FORMS(Bcast, Ibcast, BCAST_TYPES, BCAST);
    ALL_FORMS(Allgather, Iallgather, ALLGATHER_TYPES, ALLGATHER);
    ALL_FORMS(Allgatherv, Iallgatherv, ALLGATHERV_TYPES, ALLGATHERV);
    ALL_FORMS(Gather, Igather, GATHER_TYPES, GATHER);
    ALL_FORMS(Gatherv, Igatherv, GATHERV_TYPES, GATHERV);
    ALL_FORMS(Scatter, Iscatter, GATHER_TYPES, GATHER);
    ALL_FORMS(Scatterv, Iscatterv, SCATTERV_TYPES, SCATTERV);
}

int main(int argc, char **argv)
{
    int lengths[] = {4, 513, 1700}; /* within a segment, just above one, several and a part */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    room = 2000 * (size_t)(ranks + 1) * sizeof *in;
    in = malloc(room);
    out = malloc(room);
    expected = malloc(room);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        try_all(lengths[i], (int)i % ranks);
    PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, WORLD);
    if (rank == 0)
        printf("%d comparisons of each rank, %d wrong\n", tried, wrong);
    free(in);
    free(out);
    free(expected);
    MPI_Finalize();
    return wrong != 0;
}
