/* Messages far longer than bounce buffers and devices hold. First argument: the bytes of each; with a second, only a
 * gather of uneven blocks, of which one has all those bytes. */
#include <mpi.h>
#include "plain_mpi.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks, wrong;
static double *in, *out;
static long length;

static void expect(int condition, const char *what)
{
    if (!condition && wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/* Different for each rank and index, and exact in sums. */
static double element(int of, long i)
{
    return of * 3 + (double)(i % 1000003);
}

static double sum(long i)
{
    return 3 * ranks * (ranks - 1) / 2 + ranks * (double)(i % 1000003);
}

static void clear(void)
{
    for (long i = 0; i < length; i++) {
        in[i] = element(rank, i);
        out[i] = -1;
    }
}

static void expect_sums(long first, long count, const char *what)
{
    long right = 0;

    for (long i = 0; i < count; i++)
        right += out[i] == sum(first + i);
    expect(right == count, what);
    clear();
}

static void expect_elements(int of, long from, long first, long count, const char *what)
{
    long right = 0;

    for (long i = 0; i < count; i++)
        right += out[from + i] == element(of, first + i);
    expect(right == count, what);
}

static void reduce_all(void)
{
    int count = (int)length, block = count / ranks;

    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect_sums(0, length, "Allreduce");
    MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
    expect_sums(0, rank == ranks - 1 ? length : 0, "Reduce");
    MPI_Reduce_scatter_block(in, out, block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect_sums((long)rank * block, block, "Reduce_scatter_block");
}

static void move_all(void)
{
    int count = (int)length, block = count / ranks;

    MPI_Allgather(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        expect_elements(i, (long)i * block, 0, block, "Allgather");
    clear();
    MPI_Gather(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int i = 0; i < ranks && rank == 0; i++)
        expect_elements(i, (long)i * block, 0, block, "Gather");
    clear();
    MPI_Scatter(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    expect_elements(0, 0, (long)rank * block, block, "Scatter");
    MPI_Bcast(in, count, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    for (long i = 0; i < length; i++)
        out[i] = in[i];
    expect_elements(1, 0, 0, length, "Bcast");
}

/* Only rank 1 brings much; it writes only the first and the last element, so the pages take no memory. */
static void gather_uneven(void)
{
    int *counts = calloc((size_t)ranks, sizeof *counts), *offsets = calloc((size_t)ranks, sizeof *offsets);
    int own = rank == 1 ? (int)length : 1;

    for (int i = 0; i < ranks; i++)
        counts[i] = i == 1 ? (int)length : 1, offsets[i] = i < 2 ? i : (int)length + i - 1;
    in[0] = rank + 1;
    in[own - 1] = -rank - 1;
    MPI_Gatherv(in, own, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        expect(out[0] == -1 && out[1] == 2 && out[length] == -2, "Gatherv");
        for (int i = 2; i < ranks; i++)
            expect(out[length + i - 1] == -i - 1, "Gatherv after the long block");
        for (long i = 2; i < length; i++)
            expect(out[i] == 0, "Gatherv within the long block");
    }
    free(counts);
    free(offsets);
}

int main(int argc, char **argv)
{
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    length = atol(argv[1]) / (long)sizeof *in;
    in = calloc((size_t)length, sizeof *in);
    out = calloc((size_t)(length + ranks), sizeof *out);
    if (argc > 2) {
        gather_uneven();
    } else {
        clear();
        reduce_all();
        move_all();
    }
    PMPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("long: %d wrong\n", all);
    free(in);
    free(out);
    MPI_Finalize();
    return all != 0;
}
