/* MPI semantics that the shim must keep: gaps in results, errors for wrong arguments, error handlers and error
 * codes. */
#include "scenes.h"

#include <stddef.h>
#include <string.h>

enum { PAIRS = 5, FILLED = 0x5a };

struct double_int {
    double value;
    int index;
};
struct long_int {
    long value;
    int index;
};
struct short_int {
    short value;
    int index;
};

static int is_filled(const void *gap, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)gap)[i] != FILLED)
            return 0;
    return 1;
}

/* All forms of results of a type with a gap after its first or last member. */
#define EXPECT_GAPS(TYPE, MPI, start, end)                                                                            \
    do {                                                                                                              \
        struct TYPE in[PAIRS * 4], out[PAIRS * 4];                                                                    \
        MPI_Request request;                                                                                          \
        for (int form = 0; form < 4; form++) {                                                                        \
            memset(in, form == 1 ? FILLED : 0, sizeof in);                                                            \
            memset(out, FILLED, sizeof out);                                                                          \
            for (int i = 0; i < PAIRS * 4; i++)                                                                       \
                in[i].value = out[i].value = (rank + i) % ranks, in[i].index = out[i].index = rank;                   \
            if (form == 0)                                                                                            \
                MPI_Allreduce(in, out, PAIRS, MPI, MPI_MINLOC, MPI_COMM_WORLD);                                       \
            if (form == 1)                                                                                            \
                MPI_Allreduce(MPI_IN_PLACE, out, PAIRS, MPI, MPI_MINLOC, MPI_COMM_WORLD);                             \
            if (form == 2) {                                                                                          \
                MPI_Iallreduce(in, out, PAIRS, MPI, MPI_MINLOC, MPI_COMM_WORLD, &request);                            \
                MPI_Wait(&request, MPI_STATUS_IGNORE);                                                                \
            }                                                                                                         \
            if (form == 3)                                                                                            \
                MPI_Reduce_scatter_block(in, out, PAIRS, MPI, MPI_MINLOC, MPI_COMM_WORLD);                            \
            for (int i = 0; i < PAIRS; i++) {                                                                         \
                int place = form == 3 ? rank * PAIRS + i : i;                                                         \
                expect(out[i].value == 0 && out[i].index == (ranks - place % ranks) % ranks, #MPI " is wrong");       \
                expect(is_filled((char *)&out[i] + (start), (end) - (start)), "the gap of " #MPI " is written");      \
            }                                                                                                         \
        }                                                                                                             \
    } while (0)

void keep_gaps(void)
{
    EXPECT_GAPS(double_int, MPI_DOUBLE_INT, offsetof(struct double_int, index) + sizeof(int), sizeof(struct double_int));
    EXPECT_GAPS(long_int, MPI_LONG_INT, offsetof(struct long_int, index) + sizeof(int), sizeof(struct long_int));
    EXPECT_GAPS(short_int, MPI_SHORT_INT, sizeof(short), offsetof(struct short_int, index));
}

/* A communicator that returns errors, which are fatal on others. */
static MPI_Comm returning(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Every rank is refused, so none waits. Calls in which an MPI itself would end are left out. */
void mistake_arguments(void)
{
    int in[4] = {0}, all[16];
    MPI_Comm comm = returning();
    MPI_Datatype row, spread;

    expect(MPI_Allgather(in, 4, MPI_INT, MPI_IN_PLACE, 4, MPI_INT, comm), "a gathered result in place is no error");
#ifdef OPEN_MPI
    expect(MPI_Bcast(MPI_IN_PLACE, 4, MPI_INT, 0, comm), "a broadcast in place is no error");
    expect(MPI_Reduce(MPI_IN_PLACE, rank ? all : MPI_IN_PLACE, 4, MPI_INT, MPI_SUM, 0, comm),
           "in place is no error where there is no result");
#else
    expect(MPI_Allreduce(in, MPI_IN_PLACE, 4, MPI_INT, MPI_SUM, comm), "a result in place is no error");
#endif
    MPI_Type_contiguous(2, MPI_INT, &row);
    MPI_Type_vector(2, 1, 2, MPI_INT, &spread);
    expect(MPI_Bcast(all, 1, row, 0, comm), "a row that is not committed is no error");
    expect(MPI_Bcast(all, 1, spread, 0, comm), "a type that is not committed is no error");
    MPI_Type_free(&row);
    MPI_Type_free(&spread);
    MPI_Comm_free(&comm);
}

/* Fortran's types are predefined, but have no names. */
void use_types_of_fortran(void)
{
    double data[8];
    MPI_Datatype real, row;

    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
    MPI_Type_contiguous(4, real, &row);
    MPI_Type_commit(&row);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 8; i++)
            data[i] = rank ? -1 : i;
        MPI_Bcast(data, 2, row, 0, MPI_COMM_WORLD);
        for (int i = 0; i < 8; i++)
            expect(data[i] == i, "a row of a type of Fortran is broadcast wrongly");
        MPI_Bcast(data, 8, real, 0, MPI_COMM_WORLD);
    }
    MPI_Type_free(&row);
}

static int handled; /* errors passed to the handler of a communicator */

static void handle_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

enum { WAIT, TEST, WAITALL, TESTALL, WAITANY, TESTANY, WAITSOME, TESTSOME, LOOK, WAYS };

/* Complete the second of two requests in one of the ways; returns its error. */
static int complete(int way, MPI_Request requests[2])
{
    MPI_Status statuses[2];
    int flag = 0, index, indices[2], code = 0;

    while (!flag && !code) {
        flag = 1;
        switch (way) {
        case TEST: code = MPI_Test(&requests[1], &flag, statuses); break;
        case WAITALL: code = MPI_Waitall(2, requests, statuses); break;
        case TESTALL: code = MPI_Testall(2, requests, &flag, statuses); break;
        case WAITANY: code = MPI_Waitany(2, requests, &index, statuses); break;
        case TESTANY: code = MPI_Testany(2, requests, &index, &flag, statuses); break;
        case WAITSOME: code = MPI_Waitsome(2, requests, &flag, indices, statuses); break;
        case TESTSOME: code = MPI_Testsome(2, requests, &flag, indices, statuses); break;
        case LOOK: code = MPI_Request_get_status(requests[1], &flag, statuses); break;
        default: code = MPI_Wait(&requests[1], statuses);
        }
    }
    return way == LOOK ? MPI_Wait(&requests[1], statuses) : code; /* a look need not return the error */
}

/* A request fails, since rank 1 has another size; only its own communicator's handler is called. */
void fail_requests(void)
{
    int data[8] = {0};
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(handle_error, &handler);
    for (int way = 0; way < WAYS; way++) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL};
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, handler);
        handled = 0;
        MPI_Iallreduce(MPI_IN_PLACE, data, rank == 1 ? 5 : 6, MPI_INT, MPI_SUM, comm, &requests[1]);
        expect(complete(way, requests), "no error");
        expect(handled > 0, "the handler of the communicator gets no error");
        MPI_Comm_free(&comm);
    }
    MPI_Errhandler_free(&handler);
}

/* An MPI has some thousand error codes. */
void fail_often(void)
{
    enum { FAILURES = 10000 };
    int data[8] = {0}, *last, before, found;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm comm = returning();

    MPI_Allreduce(MPI_IN_PLACE, data, rank == 1 ? 5 : 6, MPI_INT, MPI_SUM, comm);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &found);
    before = *last;
    for (int i = 0; i < FAILURES; i++) {
        int length, code = MPI_Allreduce(MPI_IN_PLACE, data, 6, MPI_INT, MPI_SUM, comm);
        MPI_Error_string(code, text, &length);
        expect(strstr(text, "OP_MISMATCH") != NULL, "an error has no text of its own");
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &found);
    expect(*last - before < 1000, "each failure takes a code");
    MPI_Comm_free(&comm);
}
