/* No rank leaves a barrier, in any form, before all have entered; each round another rank is late. Argument: a file for
 * the progress of all ranks of this machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include "plain_mpi.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 64, ROUNDS = 24, LATE_US = 10000 };

static int rank, ranks, wrong;
static volatile int *arrived;
static MPI_Request persistent;

static void block(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void wait(void)
{
    MPI_Request request;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void test(void)
{
    MPI_Request request;
    int flag = 0;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static void start(void)
{
    MPI_Start(&persistent);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
}

static volatile int *map(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    void *memory;

    if (ftruncate(file, MOST * sizeof(int)))
        perror("ftruncate");
    memory = mmap(NULL, MOST * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory;
}

int main(int argc, char **argv)
{
    static void (*const forms[])(void) = {block, wait, test, start};
    int (*init)(MPI_Comm, MPI_Info, MPI_Request *) = dlsym(RTLD_DEFAULT, "MPI_Barrier_init");
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    arrived = map(argv[1]);
    init(MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);
    for (int round = 1; round <= ROUNDS; round++) {
        if (round / 4 % ranks == rank)
            usleep(LATE_US);
        arrived[rank] = round;
        forms[round % 4]();
        for (int i = 0; i < ranks; i++)
            if (arrived[i] < round && wrong++ < 5)
                fprintf(stderr, "rank %d has left barrier %d before rank %d came\n", rank, round, i);
    }
    MPI_Request_free(&persistent);
    PMPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("barrier: %d wrong\n", all);
    MPI_Finalize();
    return all != 0;
}
