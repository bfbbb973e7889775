/* Requests that advance, or are looked at, while the program is elsewhere. */
#define _GNU_SOURCE
#include "scenes.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Rank 0 waits in MPI_Recv, which reaches no device, for a rank that needs rank 0's requests. */
static void wait_in_receive(MPI_Request *last)
{
    int message = 0;

    if (rank == 0)
        MPI_Recv(&message, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(last, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    expect(rank || message == 1, "the message is wrong");
}

/* More than a device takes at a time. */
void begin_many(void)
{
    enum { MANY = 2000 };
    static int in[MANY], out[MANY];
    static MPI_Request requests[MANY];

    for (int i = 0; i < MANY; i++) {
        in[i] = rank + i;
        MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    }
    wait_in_receive(&requests[MANY - 1]);
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        expect(out[i] == ranks * (ranks - 1) / 2 + ranks * i, "a sum is wrong");
}

/* Every second element, so that the data must be packed and unpacked. */
void scatter_counts(void)
{
    enum { LONG = 3000 };
    int *counts = calloc((size_t)ranks, sizeof *counts), *offsets = calloc((size_t)ranks, sizeof *offsets);
    int *in = calloc(2 * LONG * (size_t)ranks, sizeof *in), *out = calloc(2 * LONG, sizeof *out);
    int own = rank == 1 ? 0 : LONG - rank;
    MPI_Datatype spread, element;
    MPI_Request request;

    MPI_Type_vector(1, 1, 2, MPI_INT, &spread);
    MPI_Type_create_resized(spread, 0, 2 * sizeof(int), &element);
    MPI_Type_commit(&element);
    for (int i = 0; i < ranks; i++)
        counts[i] = i == 1 ? 0 : LONG - i, offsets[i] = i * LONG;
    for (int i = 0; i < LONG * ranks; i++)
        in[2 * i] = rank ? -1 : i;
    MPI_Iscatterv(in, counts, offsets, element, out, own, element, 0, MPI_COMM_WORLD, &request);
    MPI_Type_free(&element); /* right after the call */
    memset(counts, 0x55, (size_t)ranks * sizeof *counts);
    wait_in_receive(&request);
    if (rank == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < LONG; i++)
        expect(out[2 * i] == (i < own ? rank * LONG + i : 0) && !out[2 * i + 1], "what was scattered is wrong");
    MPI_Type_free(&spread);
    free(counts);
    free(offsets);
    free(in);
    free(out);
}

/* The device (process `argument`) gets no core. A rank that tests repeatedly must yield its core, and not count the
 * device as lost. */
void test_beside_a_starved_device(void)
{
    enum { NAPS = 5 };
    struct rusage usage;
    MPI_Request request;
    int one = 1, sum = 0, done = 0, code = 0;
    long before;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* registers memory for the next one */
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        kill(atoi(argument), SIGSTOP);
    sum = 0;
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    getrusage(RUSAGE_THREAD, &usage);
    for (before = usage.ru_nvcsw; !rank && !done && !code && usage.ru_nvcsw < before + NAPS;) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        getrusage(RUSAGE_THREAD, &usage);
    }
    if (rank == 0)
        kill(atoi(argument), SIGCONT);
    expect(!code && (rank || !done), "the device was given up, or was not there to wait for");
    PMPI_Barrier(MPI_COMM_WORLD); /* the other rank waits until the device runs again */
    expect(!MPI_Wait(&request, MPI_STATUS_IGNORE) && sum == ranks, "the sum is wrong");
}

static void *look_until_done(void *request)
{
    int flag = 0;

    while (!flag)
        MPI_Request_get_status(*(MPI_Request *)request, &flag, MPI_STATUS_IGNORE);
    return NULL;
}

/* A look completes nothing, so two threads may look at the same time. */
void look_from_two_threads(void)
{
    enum { ROUNDS = 300, LENGTH = 4000 };
    static double in[LENGTH], out[LENGTH];
    MPI_Request request;
    pthread_t other;

    for (int round = 0; round < ROUNDS; round++) {
        in[LENGTH - 1] = rank + round;
        MPI_Iallreduce(in, out, LENGTH, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        pthread_create(&other, NULL, look_until_done, &request);
        look_until_done(&request);
        pthread_join(other, NULL);
        expect(out[LENGTH - 1] == ranks * (ranks - 1) / 2 + ranks * round, "the sum is wrong");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

#if HAS_PERSISTENT
static int waited;

static void *look_until_waited(void *request)
{
    int flag;

    while (!__atomic_load_n(&waited, __ATOMIC_ACQUIRE))
        MPI_Request_get_status(*(MPI_Request *)request, &flag, MPI_STATUS_IGNORE);
    return NULL;
}

/* A thread looks at a persistent request while another waits for it and restarts it. */
void look_while_another_waits(void)
{
    enum { ROUNDS = 1000, LENGTH = 4000 };
    static double in[LENGTH], out[LENGTH];
    MPI_Request request;
    pthread_t other;

    MPI_Allreduce_init(in, out, LENGTH, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    pthread_create(&other, NULL, look_until_waited, &request);
    for (int round = 0; round < ROUNDS; round++) {
        in[LENGTH - 1] = rank + round;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(out[LENGTH - 1] == ranks * (ranks - 1) / 2 + ranks * round, "the sum is wrong");
    }
    __atomic_store_n(&waited, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    MPI_Request_free(&request);
}
#else
void look_while_another_waits(void)
{
    expect(0, "this MPI has no persistent collectives");
}
#endif

#if MPI_VERSION >= 5 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
enum { NOTHING, SLEEPING, SUM, AGAIN, RECEIVED, SENT, KINDS };

struct seen {
    int any, any_flag, all, some, indices[KINDS];
};

static struct seen look(MPI_Request *requests)
{
    struct seen seen = {0};
    MPI_Status statuses[KINDS];

    MPI_Request_get_status_any(KINDS, requests, &seen.any, &seen.any_flag, &statuses[0]);
    MPI_Request_get_status_all(KINDS, requests, &seen.all, statuses);
    MPI_Request_get_status_some(KINDS, requests, &seen.some, seen.indices, statuses);
    return seen;
}

static void expect_idle(MPI_Request *requests)
{
    struct seen seen = look(requests);

    expect(seen.any_flag && seen.any == MPI_UNDEFINED && seen.all && seen.some == MPI_UNDEFINED, "idle ones are seen");
}

static void expect_waiting(MPI_Request *requests)
{
    struct seen seen = look(requests);

    expect(!seen.any_flag && seen.any == MPI_UNDEFINED && !seen.all && !seen.some, "what waits is seen as done");
}

static void expect_done(MPI_Request *requests)
{
    struct seen seen;

    do
        seen = look(requests);
    while (!seen.all);
    seen = look(requests);
    expect(seen.any_flag && seen.any == SUM && seen.some == KINDS - SUM, "not all that is done is seen");
    for (int i = SUM; i < KINDS; i++)
        expect(seen.indices[i - SUM] == i, "the wrong ones are seen as done");
}

/* Two of the devices, which rank 0 delays until the others have looked; a message each way, one never started, and a
 * null request. */
void look_at_all(void)
{
    MPI_Request requests[KINDS] = {[0 ... KINDS - 1] = MPI_REQUEST_NULL};
    int in = rank, sum = 0, again = 0, received = -1, next = (rank + 1) % ranks, token;

    MPI_Recv_init(&token, 1, MPI_INT, next, 99, MPI_COMM_WORLD, &requests[SLEEPING]);
    MPI_Allreduce_init(&in, &again, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[AGAIN]);
    expect_idle(requests);
    for (int i = 1; i < ranks && rank == 0; i++)
        MPI_Recv(&token, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Start(&requests[AGAIN]);
    MPI_Iallreduce(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[SUM]);
    if (rank) {
        expect_waiting(requests);
        MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[RECEIVED]);
    MPI_Isend(&rank, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[SENT]);
    expect_done(requests);
    expect_done(requests); /* a look does not change it */
    MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE);
    expect(sum == ranks * (ranks - 1) / 2 && again == sum, "a sum is wrong");
    expect(received == (rank + ranks - 1) % ranks, "the message is wrong");
    expect_idle(requests);
    MPI_Request_free(&requests[AGAIN]);
    MPI_Request_free(&requests[SLEEPING]);
}
#else
void look_at_all(void)
{
}
#endif
