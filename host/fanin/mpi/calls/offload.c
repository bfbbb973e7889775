/* All ranks must decide alike whether a call is offloaded. So only values decide that MPI has equal on all ranks of
 * a communicator: op, root, the size of the message, and what its ranks have agreed on. Datatypes decide only in
 * reductions, where all ranks must give the same one. Calls with senseless arguments are left to the MPI, which
 * reports them.
 */
#include "calls/offload.h"
#include "abi/mpi_progress.h"
#include "abi/pmpi.h"
#include "calls/aliases.h"
#include "settings.h"
#include <limits.h>

#define ERR_BUFFER 1 /* MPI_ERR_BUFFER, the same everywhere */
#define SHORTEST_MS 1 /* of waiting, before the MPI makes progress; then twice as long each time */
#define LONGEST_MS 4
#define ROUNDS 8      /* of its progress each time: a long message takes several */

static int reduces(enum function function)
{
    return function == ALLREDUCE || function == REDUCE || function == REDUCE_SCATTER || function == REDUCE_SCATTER_BLOCK;
}

static int joined(struct communicator *communicator, enum form form, enum reason *reason)
{
    if (!communicator->used)
        shim_note_use(communicator);
    if (communicator->state == FRESH && form == NONBLOCKING) {
        *reason = REASON_NOT_JOINED; /* the other ranks may be waiting for this one to go on */
        return 0;
    }
    if (communicator->state == FRESH)
        shim_join_communicator(communicator, 0);
    *reason = communicator->reason;
    return communicator->state == JOINED;
}

static int is_computed(const struct call *call, enum reason *reason)
{
    const struct datatype *type = shim_datatype(call->receive.type);
    uint8_t op = shim_op(call->op);

    *reason = op ? REASON_TYPE : REASON_OP;
    return op && type && type->code && shim_op_takes(op, type->kind);
}

static int is_within(const struct call *call, const struct decoded_call *decoded, enum reason *reason)
{
    const struct range *range = &shim_settings.ranges[call->function];
    uint64_t bytes = shim_message_bytes(decoded);

    if (shim_exchanges_sizes(decoded)) { /* the size is not known yet */
        *reason = REASON_THRESHOLD;
        return range->least <= range->most;
    }
    *reason = REASON_SIZE;
    if (!decoded->operation.op && bytes > INT_MAX && !pmpi.Pack_c) /* it may be one element on some rank */
        return 0;
    *reason = REASON_THRESHOLD;
    return bytes >= range->least && bytes <= range->most;
}

static struct communicator *judge(struct call *call, enum form form, struct decoded_call *decoded, enum reason *reason)
{
    struct communicator *communicator;

    *reason = REASON_NO_DEVICE;
    if (!shim_active)
        return NULL;
    *reason = REASON_ARGUMENTS;
    if (!call->comm || call->comm == shim_handle(COMM_NULL))
        return NULL;
    communicator = shim_communicator(call->comm);
    if (!communicator)
        return NULL;
    *reason = communicator->reason;
    if (communicator->state == LEFT_TO_MPI)
        return NULL;
    if (reduces(call->function) && !is_computed(call, reason))
        return NULL;
    *reason = REASON_ARGUMENTS;
    if (!shim_decode_args(call, communicator->rank, communicator->ranks, decoded))
        return NULL;
    return is_within(call, decoded, reason) && joined(communicator, form, reason) ? communicator : NULL;
}

/* With FANIN_MPI_STRICT a call that is not offloaded is an error. Returns its code, or 0. */
static int strict_error(const struct call *call, enum reason reason)
{
    int code = shim_abi->error_other;

    if (!shim_settings.strict || reason == REASON_ONE_RANK || reason == REASON_THRESHOLD || reason == REASON_ARGUMENTS)
        return 0;
    if (pmpi.Add_error_code && !pmpi.Add_error_code(code, &code))
        pmpi.Add_error_string(code, shim_reason_text(reason));
    shim_warn("STRICT: MPI_%s is not offloaded: %s; unset FANIN_MPI_STRICT", shim_function_name(call->function),
               shim_reason_text(reason));
    pmpi.Comm_call_errhandler(call->comm ? call->comm : shim_handle(COMM_WORLD), code);
    return code;
}

/* The shim reports this error instead of the MPI, at once: other ranks may go on, or wait for a correct call. */
static int alias_error(const struct call *call)
{
    shim_count_left(call->function, REASON_ARGUMENTS);
    pmpi.Comm_call_errhandler(call->comm, ERR_BUFFER);
    return ERR_BUFFER;
}

struct communicator *shim_decide(struct call *call, enum form form, struct decoded_call *decoded, int *refused)
{
    struct communicator *communicator;
    enum reason reason;

    call->send.type = clean(call->send.type);
    call->receive.type = clean(call->receive.type);
    call->op = clean(call->op);
    call->comm = clean(call->comm);
    *refused = 0;
    communicator = judge(call, form, decoded, &reason);
    if (!communicator) {
        shim_count_left(call->function, reason);
        *refused = strict_error(call, reason);
    } else if (shim_is_alias(call, communicator, decoded)) {
        *refused = alias_error(call);
        return NULL;
    }
    return communicator;
}

/* Another rank may need progress of the MPI, or of another communicator, before it does its part of the operation
 * that this rank waits for. Returns after how many milliseconds this is due again; before it was `slice`. */
static uint32_t look_after_others(struct fanin_communicator *job, uint32_t slice)
{
    for (int round = 0; round < ROUNDS; round++)
        shim_let_mpi_progress();
    fanin_progress();
    if (fanin_others_have_backlog(job))
        return SHORTEST_MS;
    return slice < LONGEST_MS ? 2 * slice : slice;
}

/* The rest of a wait, after its first millisecond. */
static enum fanin_status keep_waiting(struct fanin_communicator *job, struct fanin_request *request)
{
    enum fanin_status status = FANIN_PENDING;

    for (uint32_t slice = SHORTEST_MS; status == FANIN_PENDING; status = fanin_wait(request, slice))
        slice = look_after_others(job, slice);
    return status;
}

enum fanin_status shim_wait(struct fanin_communicator *job, struct fanin_request *request)
{
    enum fanin_status status = fanin_wait(request, SHORTEST_MS);

    return status == FANIN_PENDING ? keep_waiting(job, request) : status;
}

/* Do an operation on the devices, and wait for its end. */
static enum fanin_status run(struct fanin_communicator *job, const struct fanin_operation *operation)
{
    struct fanin_request *request;
    enum fanin_status status = fanin_call(job, operation, SHORTEST_MS, &request);

    if (status == FANIN_PENDING)
        status = keep_waiting(job, request);
    if (request)
        fanin_free(request);
    return status;
}

int shim_blocking(struct call *call, int *code)
{
    struct decoded_call decoded;
    struct prepared_call prepared;
    struct communicator *communicator = shim_decide(call, BLOCKING, &decoded, code);
    enum fanin_status status;
    int started;

    if (!communicator)
        return *code;
    status = shim_prepare(&decoded, communicator->job, &prepared);
    started = status == FANIN_SUCCESS;
    prepared.operation.flags |= FANIN_ALL_BLOCK;
    if (started)
        status = run(communicator->job, &prepared.operation);
    if (status == FANIN_NO_RESOURCES) /* the others wait for data that this rank can not send */
        fanin_end_job(communicator->job, status);
    shim_count_offloaded(call->function, prepared.source.bytes + prepared.destination.bytes);
    status = shim_conclude(&decoded, &prepared, started, status);
    *code = status == FANIN_SUCCESS ? 0 : shim_fail(call->comm, status, call->function);
    return 1;
}

int shim_fail(handle comm, enum fanin_status status, enum function function)
{
    int code = shim_error_code(status, function);

    pmpi.Comm_call_errhandler(comm, code);
    return code;
}
