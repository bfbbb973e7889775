/* An MPI with this check compares the address of a rank's data with their place in the result: in a gather or scatter
 * the rank's own block. */
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

static int is_block(const struct buffer *own, const struct buffer *all, const struct elements *blocks, int rank)
{
    return own->type == all->type && own->count > 0 && own->count == item(blocks->counts, rank) &&
           own->address == shim_block_address(blocks, rank);
}

int shim_is_alias(const struct call *call, const struct communicator *communicator, const struct decoded_call *decoded)
{
    const struct buffer *send = &call->send, *receive = &call->receive;
    int rank = communicator->rank;

    if (!mpi_checks || !send->address || is_in_place(send->address) || is_in_place(receive->address))
        return 0;
    if (decoded->operation.op)
        return decoded->destination.blocks && send->address == receive->address && shim_bytes_of(&decoded->source);
    switch (decoded->operation.collective) {
    case FANIN_ALLGATHER:
    case FANIN_ALLGATHERV:
    case FANIN_GATHER:
    case FANIN_GATHERV:
        return decoded->destination.blocks && is_block(send, receive, &decoded->destination, rank);
    case FANIN_SCATTER:
    case FANIN_SCATTERV:
        return decoded->source.blocks && is_block(receive, send, &decoded->source, rank);
    default:
        return 0;
    }
}
