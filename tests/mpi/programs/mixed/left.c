/* Calls left to the MPI: user-defined operations, intercommunicators, and errors. */
#include "scenes.h"

#include <stddef.h>

static void user_op(void *in, void *out, int *count, MPI_Datatype *type)
{
    for (int i = 0; type && i < *count; i++)
        ((int *)out)[i] += ((int *)in)[i];
}

/* Calls that devices do not do, with right results. */
void leave_to_mpi(void)
{
    MPI_Comm half, both;
    MPI_Op op;
    int sum, one = 1;

    MPI_Op_create(user_op, 1, &op);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    expect(sum == ranks, "the sum of an own operation is wrong");
    MPI_Op_free(&op);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &both);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
    expect(sum == (rank % 2 ? (ranks + 1) / 2 : ranks / 2), "the sum of the other group is wrong");
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

/* Aliased buffers: MPICH refuses them on the ranks that have them, and goes on. */
void alias_buffers(void)
{
    enum { MOST = 8 };
    static int one[MOST], other[MOST];
    int refused, code;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    refused = PMPI_Allgather(one + rank, 1, MPI_INT, one, 1, MPI_INT, MPI_COMM_WORLD);
    code = MPI_Allreduce(one, one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(!code == !refused, "a sum of one buffer");
    code = MPI_Allgather(one + rank, 1, MPI_INT, one, 1, MPI_INT, MPI_COMM_WORLD);
    expect(!code == !refused, "a gathering of one buffer for all");
    code = MPI_Gather(one, 1, MPI_INT, rank ? NULL : one, 1, MPI_INT, 0, MPI_COMM_WORLD);
    expect(!code == (!refused || rank), "a gathering of one buffer");
    if (code)
        code = MPI_Gather(one, 1, MPI_INT, other, 1, MPI_INT, 0, MPI_COMM_WORLD);
    expect(!code, "a gathering after one that was refused");
    code = MPI_Allreduce(one, one, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(!code, "a sum of nothing");
}

/* A freed communicator is an error, not the end of the program. */
void use_what_is_freed(void)
{
    MPI_Comm twin, copy;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    copy = twin;
    MPI_Comm_free(&twin);
    expect(MPI_Barrier(copy), "no error of a communicator that is no more");
    expect(!MPI_Barrier(MPI_COMM_WORLD), "an error of one that is there");
}
