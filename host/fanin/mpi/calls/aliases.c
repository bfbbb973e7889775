/* An MPI that checks this compares the data of a rank with the place of the same data in its result: in a gather or
 * scatter the rank's own block.
 */
#include "calls/aliases.h"
#include "abi/pmpi.h"

static int mpi_checks;

void shim_probe_alias_check(void)
{
    uint64_t number = 0;
    handle alone = 0, type = shim_handle(TYPE_UINT64);

    if (!shim_abi->checks_aliases)
        return;
    pmpi.Comm_dup(shim_handle(COMM_SELF), &alone);
    alone = load_handle(&alone);
    pmpi.Comm_set_errhandler(alone, shim_handle(ERRORS_RETURN));
    mpi_checks = pmpi.Allreduce(&number, &number, 1, type, shim_handle(OP_SUM), alone) != 0;
    store_handle(&alone, alone);
    pmpi.Comm_free(&alone);
}

/* Whether `one` is the block of this rank in `many`. */
static int is_block(const struct buffer *one, const struct buffer *many, const struct elements *elements, int rank)
{
    int64_t count = many->counts.items ? item(many->counts, rank) : many->count;
    int64_t offset = many->offsets.items ? item(many->offsets, rank) : rank * count;

    return one->type == many->type && one->count == count && count > 0 &&
           one->address == (const uint8_t *)many->address + offset * elements->facts.extent;
}

int shim_is_alias(const struct call *call, const struct communicator *communicator, const struct decoded_call *decoded)
{
    const struct buffer *send = &call->send, *receive = &call->receive;
    int rank = communicator->rank;

    if (!mpi_checks || !send->address || is_in_place(send->address) || is_in_place(receive->address))
        return 0;
    switch (call->function) {
    case REDUCE:
        return rank == call->root && send->address == receive->address && shim_bytes_of(&decoded->source);
    case ALLREDUCE:
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        return send->address == receive->address && shim_bytes_of(&decoded->source);
    case ALLGATHER:
    case ALLGATHERV:
        return is_block(send, receive, &decoded->destination, rank);
    case GATHER:
    case GATHERV:
        return rank == call->root && is_block(send, receive, &decoded->destination, rank);
    case SCATTER:
    case SCATTERV:
        return rank == call->root && is_block(receive, send, &decoded->source, rank);
    default:
        return 0;
    }
}
