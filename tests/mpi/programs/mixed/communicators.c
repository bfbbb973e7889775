/* Communicators that come and go: more than the device has queues, and each with its own thread. */
#include "scenes.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20, ALLOWED_PAGES = 512 }; /* that allocators and MPIs may take meanwhile: 2 MiB */

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static long pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident = 0;

    expect(fscanf(file, "%ld %ld", &size, &resident) == 2, "the memory of this process is not known");
    fclose(file);
    return resident;
}

/* One that is freed while in use, and one of half the ranks. */
static void make_two(void)
{
    MPI_Comm twin, half;
    MPI_Request request;
    int sum, size;

    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_split(twin, rank % 2, -rank, &half);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, twin, &request);
    MPI_Comm_free(&twin);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum == ranks * (ranks - 1) / 2, "the sum of a duplicate is wrong");
    MPI_Comm_size(half, &size);
    MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_MIN, half);
    expect(size == (rank % 2 ? ranks / 2 : (ranks + 1) / 2), "the size of a half is wrong");
    MPI_Comm_free(&half);
}

/* `argument` times. After a fifth of them, memory must not grow. */
void make_communicators(void)
{
    int rounds = *argument ? atoi(argument) : ROUNDS, open_then = 0;
    long pages_then = 0;

    for (int round = 0; round < rounds; round++) {
        make_two();
        if (round == rounds / 5) {
            open_then = descriptors();
            pages_then = pages();
        }
    }
    expect(descriptors() == open_then, "descriptors are left");
    expect(pages() <= pages_then + ALLOWED_PAGES, "memory is left");
}

static void meet_without_blocking(void)
{
    MPI_Comm twin;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Ibarrier(twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&twin);
}

/* Only non-blocking calls, of communicators that have joined or never do. */
void never_block(void)
{
    meet_without_blocking();
    meet_without_blocking();
}

/* Two communicators join for their calls or bytes; a third never does. */
void become_worth_a_job(void)
{
    enum { CALLS = 70, LONG_CALLS = 6, LONG = 1 << 20 };
    char *in = calloc(LONG, 1), *out = calloc(LONG, 1);
    MPI_Comm little, much, none;

    MPI_Comm_dup(MPI_COMM_WORLD, &little);
    MPI_Comm_dup(MPI_COMM_WORLD, &much);
    MPI_Comm_dup(MPI_COMM_WORLD, &none);
    in[0] = 1;
    for (int i = 0; i < CALLS; i++)
        MPI_Allreduce(in, out, 1, MPI_INT8_T, MPI_SUM, little);
    expect(out[0] == ranks, "the short sum is wrong");
    for (int i = 0; i < LONG_CALLS; i++)
        MPI_Reduce(in, out, LONG, MPI_INT8_T, MPI_SUM, 0, much);
    expect(out[0] == ranks, "the long sum is wrong");
    MPI_Barrier(none);
    MPI_Comm_free(&little);
    MPI_Comm_free(&much);
    MPI_Comm_free(&none);
    free(in);
    free(out);
}

/* Non-blocking calls are worth a job. The barrier between them joins, though it stays with the MPI. */
void join_between_nonblocking_calls(void)
{
    enum { CALLS = 70, LATER_CALLS = 5 };
    MPI_Request request;
    int one = 1, sum;

    for (int i = 0; i < CALLS + LATER_CALLS; i++) {
        if (i == CALLS)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(sum == ranks, "the sum is wrong");
    }
}

/* More communicators than the device has queues, during a long sum on a freed one. */
void use_up_queues(void)
{
    enum { MANY = 66, LONG = 1 << 20 };
    double *in = calloc(LONG, sizeof *in), *out = calloc(LONG, sizeof *out);
    MPI_Comm twin, others[MANY];
    MPI_Request request;
    int one = 1, sum;

    in[0] = in[LONG - 1] = rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    for (int i = 0; i < MANY; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &others[i]);
        if (i < MANY - 1)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, others[i]);
    }
    MPI_Iallreduce(in, out, LONG, MPI_DOUBLE, MPI_SUM, twin, &request);
    MPI_Comm_free(&twin);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, others[MANY - 1]);
    expect(sum == ranks, "the sum of the last communicator is wrong");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(out[0] + out[LONG - 1] == ranks * (ranks - 1), "the long sum is wrong");
    for (int i = 0; i < MANY; i++)
        MPI_Comm_free(&others[i]);
    free(in);
    free(out);
}

/* The devices have room for the last of many communicators only before its last calls. But the MPI has computed its
 * first floating-point sum, and continues to do so. */
void wait_for_room(void)
{
    enum { MANY = 70, CALLS = 1100 };
    MPI_Comm others[MANY];
    double number = 0.5, numbers;
    int one = 1, sum;

    for (int i = 0; i < MANY; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &others[i]);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, others[i]);
    }
    for (int i = 0; i < MANY - 1; i++)
        MPI_Comm_free(&others[i]);
    MPI_Reduce(&number, &numbers, 1, MPI_DOUBLE, MPI_SUM, 0, others[MANY - 1]);
    for (int i = 0; i < CALLS; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, others[MANY - 1]);
        expect(sum == ranks, "a sum of the last communicator is wrong");
    }
    MPI_Reduce(&number, &numbers, 1, MPI_DOUBLE, MPI_SUM, 0, others[MANY - 1]);
    MPI_Comm_free(&others[MANY - 1]);
}

struct errand {
    MPI_Comm comm;
    int wrong;
};

static void *add_often(void *argument)
{
    struct errand *errand = argument;

    for (int i = 0; i < 300; i++) {
        double in = rank + i, out;
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, errand->comm);
        errand->wrong += out != ranks * (ranks - 1) / 2 + ranks * i;
    }
    return NULL;
}

void use_threads(void)
{
    struct errand errands[2] = {{.wrong = 0}};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &errands[i].comm);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add_often, &errands[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        expect(!errands[i].wrong, "a sum in a thread is wrong");
        MPI_Comm_free(&errands[i].comm);
    }
}
