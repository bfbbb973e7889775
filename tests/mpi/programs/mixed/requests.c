/* Requests: of collectives and messages in one array, persistent, and freed during MPI_Finalize. */
#include "scenes.h"

#include <stddef.h>

enum { KINDS = 5, LENGTH = 1000 };

struct work {
    MPI_Request requests[KINDS];
    double sum[LENGTH], in[LENGTH], sent[LENGTH], received[LENGTH], root[LENGTH];
};

/* Two collectives, a message to the next rank, one from the previous, and a null request. */
static void begin(struct work *work)
{
    for (int i = 0; i < LENGTH; i++) {
        work->in[i] = work->sent[i] = rank + i;
        work->root[i] = rank == 1 ? i : -1;
    }
    MPI_Iallreduce(work->in, work->sum, LENGTH, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &work->requests[0]);
    MPI_Isend(work->sent, LENGTH, MPI_DOUBLE, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &work->requests[1]);
    MPI_Ibcast(work->root, LENGTH, MPI_DOUBLE, 1, MPI_COMM_WORLD, &work->requests[2]);
    MPI_Irecv(work->received, LENGTH, MPI_DOUBLE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &work->requests[3]);
    work->requests[4] = MPI_REQUEST_NULL;
}

static void check(const struct work *work)
{
    int last = LENGTH - 1;

    expect(work->sum[last] == ranks * (ranks - 1) / 2 + ranks * last, "the sum is wrong");
    expect(work->received[last] == (rank + ranks - 1) % ranks + last, "the message is wrong");
    expect(work->root[last] == last, "the broadcast is wrong");
    for (int i = 0; i < KINDS; i++)
        expect(work->requests[i] == MPI_REQUEST_NULL, "a request is left");
}

static void wait_in_every_way(void)
{
    static struct work work;
    MPI_Status statuses[KINDS];
    int index, flag, some, indices[KINDS], done;

    begin(&work);
    MPI_Waitall(KINDS, work.requests, statuses);
    check(&work);
    begin(&work);
    for (done = 0; done < 4; done++) {
        MPI_Waitany(KINDS, work.requests, &index, statuses);
        expect(index >= 0 && index < 4, "Waitany gives no request");
    }
    MPI_Waitany(KINDS, work.requests, &index, statuses);
    expect(index == MPI_UNDEFINED, "Waitany finds a request where none is left");
    check(&work);
    begin(&work);
    for (done = 0; done < 4; done += some)
        MPI_Waitsome(KINDS, work.requests, &some, indices, statuses);
    check(&work);
    begin(&work);
    for (flag = 0; !flag;)
        MPI_Testall(KINDS, work.requests, &flag, statuses);
    check(&work);
    begin(&work);
    for (done = 0; done < 4; done += flag && index != MPI_UNDEFINED)
        MPI_Testany(KINDS, work.requests, &index, &flag, statuses);
    check(&work);
    begin(&work);
    for (int i = 0; i < KINDS; i++) {
        MPI_Request_get_status(work.requests[i], &flag, statuses);
        MPI_Wait(&work.requests[i], MPI_STATUS_IGNORE);
    }
    check(&work);
}

#if HAS_PERSISTENT
/* Started in another order on each rank. */
static void persistent(void)
{
    enum { COUNT = 4 };
    MPI_Request requests[COUNT + 1];
    double in[COUNT], out[COUNT];
    int index, flag;

    for (int i = 0; i < COUNT; i++)
        MPI_Allreduce_init(&in[i], &out[i], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    requests[COUNT] = MPI_REQUEST_NULL;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = round + i;
        for (int i = 0; i < COUNT; i++)
            MPI_Start(&requests[(i * (rank % 2 ? 1 : COUNT - 1) + rank) % COUNT]);
        if (round % 3 == 0)
            MPI_Waitall(COUNT + 1, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT && round % 3 == 1; i++)
            MPI_Waitany(COUNT + 1, requests, &index, MPI_STATUS_IGNORE);
        for (flag = 0; !flag && round % 3 == 2;)
            MPI_Testall(COUNT + 1, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT; i++)
            expect(out[i] == ranks * (round + i), "a persistent sum is wrong");
    }
    for (int i = 0; i < COUNT; i++)
        MPI_Request_free(&requests[i]);
}
#else
static void persistent(void)
{
}
#endif

void wait_for_requests(void)
{
    wait_in_every_way();
    persistent();
}

/* MPI_Finalize frees MPI_COMM_SELF first, in whose callbacks programs free what they have kept. */
static MPI_Request kept = MPI_REQUEST_NULL;

static int free_kept(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_Request_free(&kept);
}

void free_late(void)
{
#if HAS_PERSISTENT
    static int one = 1, sum;
    int key;

    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    expect(sum == ranks, "the sum is wrong");
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_kept, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
#endif
}
