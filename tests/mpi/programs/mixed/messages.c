/* Ranks that wait for each other in collectives and messages at the same time. */
#include "scenes.h"

#include <stdlib.h>

/* A rank waits in a collective of the devices, while another needs it to advance a long message. */
void let_messages_go_on(void)
{
    enum { LONG = 1 << 22 };
    char *message = calloc(LONG, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    int one = 1, sum;

    if (rank == 0) {
        message[LONG - 1] = 7;
        MPI_Isend(message, LONG, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
    }
    if (rank == 1) {
        MPI_Recv(message, LONG, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(message[LONG - 1] == 7, "the long message is wrong");
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == ranks, "the sum is wrong");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(message);
}

/* Collectives after a gather of counts advance while the root waits for a message that depends on them. */
void gather_counts(void)
{
    int *all = calloc((size_t)ranks, sizeof *all), *counts = calloc((size_t)ranks, sizeof *counts);
    int *offsets = calloc((size_t)ranks, sizeof *offsets), one = 1, sum = 0, message = 0;
    MPI_Request requests[2];

    for (int i = 0; i < ranks; i++)
        counts[i] = 1, offsets[i] = i;
    MPI_Igatherv(&rank, 1, MPI_INT, all, counts, offsets, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    if (rank == 0)
        MPI_Recv(&message, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank == 1)
        MPI_Send(&sum, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    expect(sum == ranks && (rank != 0 || message == ranks), "the sum is wrong");
    for (int i = 0; i < ranks && rank == 0; i++)
        expect(all[i] == i, "what was gathered is wrong");
    free(all);
    free(counts);
    free(offsets);
}
