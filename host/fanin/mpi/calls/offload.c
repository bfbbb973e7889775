/* All ranks must decide alike whether a call is offloaded. So the decision depends only on values that are equal on all
 * ranks: op, root, size of the message, datatype of a reduction, and earlier agreements. The MPI reports arguments that
 * make no sense. Record 0051 (docs/decisions): which sizes pay, and how that was measured. */
#include "calls/offload.h"
#include "abi/mpi_progress.h"
#include "abi/pmpi.h"
#include "calls/aliases.h"
#include "calls/failure.h"
#include "calls/fast_path.h"
#include "settings.h"
#include <limits.h>

#define ERR_BUFFER 1 /* MPI_ERR_BUFFER, the same everywhere */
#define MIN_WAIT_MS 1 /* of waiting, before the MPI makes progress; doubled each time */
#define MAX_WAIT_MS 4
#define ROUNDS 8      /* of its progress each time, since a long message takes several */

static enum reason check_size(const struct call *call, enum form form, const struct decoded_call *decoded,
                              const struct range *ranges)
{
    const struct range *range = &ranges[call->function];
    uint64_t bytes = shim_size_of_blocks(decoded, decoded->blocks);

    if (decoded->operation.flags & FANIN_EXCHANGE_SIZES) /* the size is unknown yet */
        return range->least <= range->most ? NO_REASON : REASON_THRESHOLD;
    if (!decoded->operation.op && bytes > INT_MAX && !pmpi.Pack_c) /* it may be one element on some rank */
        return REASON_SIZE;
    if (form != BLOCKING && !shim_is_within(&ranges[REQUESTS], bytes))
        return REASON_THRESHOLD;
    return shim_is_within(range, bytes) ? NO_REASON : REASON_THRESHOLD;
}

/* Bytes of an element of any type, or 0. */
static uint64_t size_of(handle type)
{
    int size;

    if (shim_datatype(type))
        return shim_predefined_size(type);
    return shim_is_usable(type) && !pmpi.Type_size(type, &size) && size > 0 ? (uint64_t)size : 0;
}

/* Whether the bits of a result depend on the order of the ranks' data: not for integers, which alone have bitwise
 * ops. */
static int has_order(const struct decoded_call *decoded)
{
    const struct fanin_operation *operation = &decoded->operation;

    return (operation->op == FANIN_OP_SUM || operation->op == FANIN_OP_PROD) &&
           !fanin_is_supported(FANIN_OP_BAND, operation->dtype);
}

static int is_worth_a_job(struct communicator *communicator, const struct decoded_call *decoded)
{
    int unknown = decoded->operation.flags & FANIN_EXCHANGE_SIZES; /* on this rank */

    return shim_is_worth_a_job(communicator, unknown ? 0 : shim_size_of_blocks(decoded, decoded->blocks));
}

/* With a fixed order, the first sum of a communicator decides whether MPI or devices do all, since their orders
 * differ. */
static enum reason join_for_order(struct communicator *communicator, const struct decoded_call *decoded, enum form form)
{
    if (communicator->has_order_of_mpi)
        return REASON_ORDER;
    if (communicator->reason == REASON_NOT_JOINED && form != NONBLOCKING &&
        (form == PERSISTENT || communicator->handle == shim_handle(COMM_WORLD) ||
         is_worth_a_job(communicator, decoded)))
        shim_join_communicator(communicator, 0);
    communicator->has_order_of_mpi = communicator->reason != NO_REASON;
    return communicator->has_order_of_mpi ? REASON_ORDER : NO_REASON;
}

/* Why a call whose size pays can not be offloaded, or NO_REASON. */
static enum reason find_job(struct communicator *communicator, const struct decoded_call *decoded, enum form form)
{
    if (shim_settings.order && has_order(decoded))
        return join_for_order(communicator, decoded, form);
    if (communicator->reason != REASON_NOT_JOINED)
        return communicator->reason;
    if (!is_worth_a_job(communicator, decoded) && form != PERSISTENT)
        return REASON_FEW_CALLS;
    if (form != NONBLOCKING)
        shim_join_communicator(communicator, 0);
    else /* the other ranks may wait for this one */
        communicator->is_to_join = 1;
    return communicator->reason;
}

/* Why a call is left to the MPI, or NO_REASON. */
static enum reason judge(const struct call *call, enum form form, struct decoded_call *decoded,
                         struct communicator **found)
{
    struct communicator *communicator;
    enum reason reason;

    if (!shim_active)
        return REASON_NO_DEVICE;
    if (!call->comm || call->comm == shim_handle(COMM_NULL))
        return REASON_ARGUMENTS;
    *found = communicator = shim_communicator(call->comm);
    if (!communicator)
        return REASON_ARGUMENTS;
    if (communicator->reason == REASON_NO_ROOM && (form == NONBLOCKING || !shim_may_retry(communicator)))
        return communicator->reason;
    if (communicator->reason != NO_REASON && communicator->reason != REASON_NOT_JOINED)
        return communicator->reason;
    if (communicator->reason == NO_REASON && shim_is_revoked(call->comm))
        return communicator->reason = REASON_REVOKED;
    if (communicator->is_to_join && form != NONBLOCKING)
        shim_join_communicator(communicator, 0);
    if (shim_is_left(call, communicator, size_of))
        return REASON_THRESHOLD;
    reason = shim_decode_args(call, communicator->rank, communicator->ranks, decoded);
    if (reason == NO_REASON)
        reason = check_size(call, form, decoded, communicator->ranges);
    return reason == NO_REASON ? find_job(communicator, decoded, form) : reason;
}

/* The error code of FANIN_MPI_STRICT for a call that is not offloaded, or 0. */
static int strict_error(const struct call *call, enum reason reason)
{
    int code;

    if (!shim_settings.strict || reason == REASON_ONE_RANK || reason == REASON_THRESHOLD ||
        reason == REASON_FEW_CALLS || reason == REASON_ORDER || reason == REASON_ARGUMENTS || reason == REASON_REVOKED)
        return 0;
    code = shim_code_with_text(shim_abi->error_other, shim_reason_texts[reason]);
    shim_warn("STRICT: MPI_%s is not offloaded: %s; unset FANIN_MPI_STRICT", shim_function_names[call->function],
              shim_reason_texts[reason]);
    pmpi.Comm_call_errhandler(call->comm ? call->comm : shim_handle(COMM_WORLD), code);
    return code;
}

struct communicator *shim_decide(struct call *call, enum form form, struct decoded_call *decoded, int *refused)
{
    struct communicator *communicator;
    enum reason reason;

    call->send.type = clean(call->send.type);
    call->receive.type = clean(call->receive.type);
    call->op = clean(call->op);
    call->comm = clean(call->comm);
    reason = judge(call, form, decoded, &communicator);
    *refused = reason == NO_REASON ? 0 : strict_error(call, reason);
    /* The shim reports this error itself: other ranks may have gone on, or wait for a correct call. */
    if (reason == NO_REASON && shim_is_alias(call, communicator, decoded)) {
        reason = REASON_ARGUMENTS;
        *refused = ERR_BUFFER;
        pmpi.Comm_call_errhandler(call->comm, ERR_BUFFER);
    }
    if (reason == NO_REASON)
        return communicator;
    shim_count_left(call->function, reason);
    return NULL;
}

void shim_end_if_revoked(handle comm, struct fanin_communicator *job)
{
    if (shim_is_revoked(comm))
        fanin_end_job(job, FANIN_ABORTED);
}

/* Advance the MPI and other communicators, since another rank may need that before it takes part in this operation.
 * Returns the next interval in milliseconds, after `slice`. */
static uint32_t look_after_others(handle comm, struct fanin_communicator *job, uint32_t slice)
{
    for (int round = 0; round < ROUNDS; round++)
        shim_let_mpi_progress();
    shim_end_if_revoked(comm, job);
    fanin_progress();
    if (fanin_others_have_backlog(job))
        return MIN_WAIT_MS;
    return slice < MAX_WAIT_MS ? 2 * slice : slice;
}

static enum fanin_status keep_waiting(handle comm, struct fanin_communicator *job, struct fanin_request *request)
{
    enum fanin_status status = FANIN_PENDING;

    for (uint32_t slice = MIN_WAIT_MS; status == FANIN_PENDING; status = fanin_wait(request, slice))
        slice = look_after_others(comm, job, slice);
    return status;
}

enum fanin_status shim_wait(handle comm, struct fanin_communicator *job, struct fanin_request *request)
{
    enum fanin_status status = fanin_wait(request, MIN_WAIT_MS);

    return status == FANIN_PENDING ? keep_waiting(comm, job, request) : status;
}

int shim_blocking(struct call *call, int *code)
{
    struct decoded_call decoded;
    struct prepared_call prepared;
    struct communicator *communicator = shim_decide(call, BLOCKING, &decoded, code);
    struct fanin_request *request = NULL;
    enum fanin_status status;
    int started;

    if (!communicator)
        return *code;
    status = shim_prepare(&decoded, communicator->job, &prepared);
    started = status == FANIN_SUCCESS;
    prepared.operation.flags |= FANIN_ALL_BLOCK;
    if (started)
        status = fanin_call(communicator->job, &prepared.operation, MIN_WAIT_MS, &request);
    if (status == FANIN_PENDING)
        status = keep_waiting(call->comm, communicator->job, request);
    if (status == FANIN_NO_RESOURCES) /* the others wait for data that this rank can not send */
        fanin_end_job(communicator->job, status);
    shim_count_offloaded(call->function, prepared.source.bytes + prepared.destination.bytes);
    status = shim_conclude(&decoded, &prepared, started, status);
    *code = status == FANIN_SUCCESS ? 0
            : shim_error_code(call->comm, status, call->function, &prepared, communicator->job, request);
    if (request)
        fanin_free(request);
    if (*code)
        pmpi.Comm_call_errhandler(call->comm, *code);
    return 1;
}
