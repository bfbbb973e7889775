/* Whether a call is offloaded depends only on what MPI has equal on all ranks of a communicator: op, the size of the
 * message, root, and what its ranks have agreed on. A datatype decides only where MPI wants the same one everywhere, in
 * reductions. Arguments that make no sense are left to the MPI, which ends the program or says what is wrong.
 */
#include "offload.h"
#include "aliases.h"
#include "pieces.h"
#include "pmpi.h"
#include "settings.h"
#include "world.h"
#include <limits.h>

#define ERR_BUFFER 1 /* MPI_ERR_BUFFER, the same everywhere */
#define SHORTEST_MS 1 /* of a wait, before the MPI is looked after; then twice as long each time */
#define LONGEST_MS 4
#define ROUNDS 8 /* of its progress then: a long message takes several */

static int reduces(enum function function)
{
    return function == ALLREDUCE || function == REDUCE || function == REDUCE_SCATTER || function == REDUCE_SCATTER_BLOCK;
}

static int joined(struct communicator *communicator, enum form form, enum reason *reason)
{
    if (!communicator->used)
        fanin_note_use(communicator);
    if (communicator->state == FRESH && form == NONBLOCKING) {
        *reason = REASON_NOT_JOINED; /* to agree now could wait for a rank that waits for this one */
        return 0;
    }
    if (communicator->state == FRESH)
        fanin_join_communicator(communicator, 0);
    *reason = communicator->reason;
    return communicator->state == JOINED;
}

static int is_computed(const struct call *call, enum reason *reason)
{
    const struct datatype *type = fanin_predefined(call->receive.type);
    uint8_t op = fanin_op_of(call->op);

    *reason = op ? REASON_TYPE : REASON_OP;
    return op && type && type->code && fanin_takes(op, type->kind);
}

static int is_within(const struct call *call, const struct meaning *meaning, enum reason *reason)
{
    const struct range *range = &fanin_settings.ranges[call->function];
    uint64_t bytes = fanin_message_bytes(meaning);

    *reason = REASON_SIZE;
    if (!meaning->computed && bytes > INT_MAX && !pmpi.Pack_c) /* some rank may have it as one element */
        return 0;
    *reason = REASON_THRESHOLD;
    if (meaning->counts_of_root) /* not known yet */
        return range->least <= range->most;
    return bytes >= range->least && bytes <= range->most;
}

static struct communicator *judge(struct call *call, enum form form, struct meaning *meaning, enum reason *reason)
{
    struct communicator *communicator;

    *reason = REASON_NO_DEVICE;
    if (!fanin_active)
        return NULL;
    *reason = REASON_ARGUMENTS;
    if (!call->comm || call->comm == fanin_object(COMM_NULL))
        return NULL;
    communicator = fanin_communicator(call->comm);
    if (!communicator)
        return NULL;
    *reason = communicator->reason;
    if (communicator->state == LEFT_TO_MPI)
        return NULL;
    if (reduces(call->function) && !is_computed(call, reason))
        return NULL;
    *reason = REASON_ARGUMENTS;
    if (!fanin_meaning(call, communicator->rank, communicator->ranks, meaning))
        return NULL;
    return is_within(call, meaning, reason) && joined(communicator, form, reason) ? communicator : NULL;
}

/* The error of a call that the program wants offloaded or not done at all. */
static int strict_error(const struct call *call, enum reason reason)
{
    int code = fanin_family->error_other;

    if (!fanin_settings.strict || reason == REASON_ONE_RANK || reason == REASON_THRESHOLD || reason == REASON_ARGUMENTS)
        return 0;
    if (pmpi.Add_error_code && !pmpi.Add_error_code(code, &code))
        pmpi.Add_error_string(code, fanin_reason_text(reason));
    fanin_warn("STRICT: MPI_%s is not offloaded: %s; unset FANIN_MPI_STRICT", fanin_function_name(call->function),
               fanin_reason_text(reason));
    pmpi.Comm_call_errhandler(call->comm ? call->comm : fanin_object(COMM_WORLD), code);
    return code;
}

/* In its place, and at once: the others may go on without this rank, or wait for a call of it that is right. */
static int alias_error(const struct call *call)
{
    fanin_count_left(call->function, REASON_ARGUMENTS);
    pmpi.Comm_call_errhandler(call->comm, ERR_BUFFER);
    return ERR_BUFFER;
}

struct communicator *fanin_decide(struct call *call, enum form form, struct meaning *meaning, int *refused)
{
    struct communicator *communicator;
    enum reason reason;

    call->send.type = clean(call->send.type);
    call->receive.type = clean(call->receive.type);
    call->op = clean(call->op);
    call->comm = clean(call->comm);
    *refused = 0;
    communicator = judge(call, form, meaning, &reason);
    if (!communicator) {
        fanin_count_left(call->function, reason);
        *refused = strict_error(call, reason);
    } else if (fanin_is_alias(call, communicator, meaning)) {
        *refused = alias_error(call);
        return NULL;
    }
    return communicator;
}

/* Another rank may need the MPI to go on, or another job, before it does its part of what this stream waits for. Returns
 * in how many milliseconds they are to be looked after again; the last time it was `slice`.
 */
static uint32_t look_after_others(const struct stream *stream, uint32_t slice)
{
    for (int round = 0; round < ROUNDS; round++)
        fanin_let_mpi_progress();
    fanin_advance_all();
    if (fanin_others_wait(stream))
        return SHORTEST_MS;
    return slice < LONGEST_MS ? 2 * slice : slice;
}

void fanin_wait_for(struct stream *stream, const struct transfer *transfer)
{
    uint32_t slice = SHORTEST_MS;
    uint64_t now = fanin_now_ms(), next = now + slice;

    while (!is_done(transfer)) {
        fanin_stream_sleep(stream, transfer, (uint32_t)(next - now));
        fanin_stream_advance(stream);
        now = fanin_now_ms();
        if (now >= next && !is_done(transfer)) {
            slice = look_after_others(stream, slice);
            now = fanin_now_ms();
            next = now + slice;
        }
    }
}

int fanin_fail(handle comm, uint32_t status, enum function function)
{
    int code = fanin_error_code(status, fanin_function_name(function));

    pmpi.Comm_call_errhandler(comm, code);
    return code;
}

/* Only who waits is there to copy pieces. */
static int prepare(struct operation *operation, const struct communicator *communicator)
{
    int (*how)(struct operation *, const struct terms *, int) =
        fanin_is_long(&operation->meaning) ? fanin_prepare_pieces : fanin_prepare;

    return how(operation, &communicator->member->terms, communicator->ranks);
}

int fanin_blocking(struct call *call, int *code)
{
    struct operation operation;
    struct communicator *communicator = fanin_decide(call, BLOCKING, &operation.meaning, code);
    enum fanin_status status = FANIN_NO_RESOURCES;

    if (!communicator)
        return *code;
    if (prepare(&operation, communicator)) {
        fanin_stream_submit(&communicator->member->stream, &operation.transfer);
        fanin_wait_for(&communicator->member->stream, &operation.transfer);
        if (has_ended(&communicator->member->stream)) /* there was no memory for what the counts said */
            fanin_abandon_job(communicator->member);
        fanin_count_offloaded(call->function, operation.source.bytes + operation.destination.bytes);
        fanin_release_pieces(&operation);
        status = fanin_conclude(&operation);
    } else {
        fanin_abandon_job(communicator->member);
        fanin_release_pieces(&operation);
        fanin_drop_operation(&operation);
    }
    *code = status == FANIN_SUCCESS ? 0 : fanin_fail(call->comm, status, call->function);
    return 1;
}
