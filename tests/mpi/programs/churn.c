/* Communicators that are made, used and freed, the first argument times: nothing of them stays in
 * the process.
 */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALLOWED_PAGES = 512 }; /* 2 MiB that memory allocators and MPIs may take meanwhile */

static int rank, ranks, wrong;

static void expect(int condition, const char *what, long first, long last)
{
    if (!condition && wrong++ < 5)
        fprintf(stderr, "rank %d: %s: %ld, then %ld\n", rank, what, first, last);
}

static long descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    long count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static long pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident;

    if (fscanf(file, "%ld %ld", &size, &resident) != 2)
        resident = -1;
    fclose(file);
    return resident;
}

static void use_one(int round)
{
    MPI_Comm comm;
    int in = rank + round, sum = 0;

    if (round % 2)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    else
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == ranks * (ranks - 1) / 2 + ranks * round, "a sum is wrong", sum, round);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int rounds = atoi(argv[1]), all;
    long open_before = 0, pages_before = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < rounds; round++) {
        use_one(round);
        if (round == rounds / 5) { /* by then all has been taken that is kept for good */
            open_before = descriptors();
            pages_before = pages();
        }
    }
    expect(descriptors() <= open_before, "descriptors are left", open_before, descriptors());
    expect(pages() <= pages_before + ALLOWED_PAGES, "memory is left", pages_before, pages());
    PMPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("churn: %d wrong, %ld pages more\n", all, pages() - pages_before);
    MPI_Finalize();
    return all != 0;
}
