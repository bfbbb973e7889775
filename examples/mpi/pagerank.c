/* PageRank: how much a page matters, by the links to it. Each process has a share of the links, and ranks all pages.
 *
 *   mpicc -O2 pagerank.c -o pagerank
 *   fanin run --mpi -n 4 -- ./pagerank
 *
 * In each step a process adds up what its own links bring to the pages. An MPI_Allreduce of one number for each page, 8 MiB,
 * adds up the shares of all. Devices are faster at this size, so they get these calls without any setting. Links are drawn
 * at random; most lead to few pages. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGES (1 << 20)
#define LINKS (1 << 18)        /* of a process */
#define STEPS 40
#define DAMPING 0.85

struct link {
    uint32_t from, to;
};

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void draw_links(struct link *links, int process)
{
    uint64_t state = (uint64_t)process + 1;

    for (int i = 0; i < LINKS; i++) {
        uint32_t page = draw(&state) % PAGES;
        links[i] = (struct link){draw(&state) % PAGES, (uint32_t)((uint64_t)page * page / PAGES)};
    }
}

/* What the links of this process bring. */
static void add_share(const struct link *links, const double *rank, const int *degree, double *share)
{
    for (int page = 0; page < PAGES; page++)
        share[page] = 0;
    for (int i = 0; i < LINKS; i++)
        share[links[i].to] += rank[links[i].from] / degree[links[i].from];
}

/* The new ranks; returns how much they have changed. A page without links is taken to link to all. */
static double update(double *rank, const double *share)
{
    double sum = 0, change = 0;

    for (int page = 0; page < PAGES; page++)
        sum += share[page];
    for (int page = 0; page < PAGES; page++) {
        double new = DAMPING * share[page] + (1 - DAMPING * sum) / PAGES;
        change += fabs(new - rank[page]);
        rank[page] = new;
    }
    return change;
}

int main(int argc, char **argv)
{
    struct link *links = malloc(LINKS * sizeof *links);
    double *rank = malloc(PAGES * sizeof *rank), *share = malloc(PAGES * sizeof *share), change = 0, begun, summing = 0;
    int *degree = calloc(PAGES, sizeof *degree), process, best = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    draw_links(links, process);
    for (int i = 0; i < LINKS; i++)
        degree[links[i].from]++;
    MPI_Allreduce(MPI_IN_PLACE, degree, PAGES, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int page = 0; page < PAGES; page++)
        rank[page] = 1.0 / PAGES;

    begun = MPI_Wtime();
    for (int step = 0; step < STEPS; step++) {
        add_share(links, rank, degree, share);
        summing -= MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, share, PAGES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        summing += MPI_Wtime();
        change = update(rank, share);
    }
    for (int page = 0; page < PAGES; page++)
        best = rank[page] > rank[best] ? page : best;
    if (process == 0) {
        printf("page %d has the highest rank, %.6f; change of the last step: %.1e\n", best, rank[best], change);
        fprintf(stderr, "%.2f s, of which %.2f s in MPI_Allreduce\n", MPI_Wtime() - begun, summing);
    }
    free(links);
    free(rank);
    free(share);
    free(degree);
    MPI_Finalize();
    return 0;
}
