#include "calls/failure.h"
#include "abi/mpi_progress.h"
#include "abi/pmpi.h"
#include "comm/communicator.h"
#include "report.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_TEXT 255 /* of an error code, in Open MPI */
#define MAX_NAMES 140   /* bytes of it for ranks and devices */
#define MAX_ERROR_STRING 8192 /* of MPI_Error_string, in any MPI */
#define KEPT_CODES 64        /* of a class */
#define REVOCATION_LOOKS 100 /* a millisecond apart */

struct text {
    char bytes[MAX_TEXT + 1];
    size_t length;
};

/* Append a text if it fits. */
__attribute__((format(printf, 2, 3))) static void append(struct text *text, const char *format, ...)
{
    size_t room = sizeof text->bytes - text->length;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < room)
        text->length += (size_t)length;
    text->bytes[text->length] = 0;
}

static int has_root(uint32_t collective)
{
    return collective == FANIN_REDUCE || collective == FANIN_BROADCAST || collective == FANIN_GATHER ||
           collective == FANIN_SCATTER || collective == FANIN_GATHERV || collective == FANIN_SCATTERV;
}

/* The arguments of this rank that must be equal on all ranks. */
static void append_call(struct text *text, const struct prepared_call *prepared)
{
    const struct fanin_operation *operation = &prepared->operation;
    uint64_t sent = prepared->source.bytes, received = prepared->destination.bytes;

    if (operation->collective == FANIN_BARRIER)
        return;
    if (sent && received && sent != received)
        append(text, "%llu bytes sent, %llu received", (unsigned long long)sent, (unsigned long long)received);
    else
        append(text, "%llu bytes", (unsigned long long)(sent ? sent : received));
    if (operation->op)
        append(text, " of %s by %s", fanin_dtype_name(operation->dtype), fanin_op_name(operation->op));
    if (has_root(operation->collective))
        append(text, ", root %u", operation->root);
    append(text, ", ");
}

/* The number of the message, or, if the job had ended before it, of the one that ended it. */
static void append_place(struct text *text, enum fanin_status status, const struct fanin_communicator_state *state,
                         const struct fanin_request *request)
{
    if (request && (state->ended.status == FANIN_SUCCESS || state->ended_number == fanin_number(request)))
        append(text, "message %llu of the communicator", (unsigned long long)fanin_number(request));
    else if (state->ended.status != FANIN_SUCCESS)
        append(text, "not done: the communicator failed at message %llu", (unsigned long long)state->ended_number);
    else
        append(text, "not started");
    if (!request && (status == FANIN_INVALID_REQUEST || status == FANIN_NOT_SUPPORTED))
        append(text, ": %s", fanin_complaint());
}

/* The ranks that the completion names, or the error found by this rank alone. */
static void append_ranks(struct text *text, enum fanin_status status, const struct fanin_communicator_state *state,
                         struct fanin_communicator *job, const struct fanin_request *request)
{
    struct fanin_cqe completion = state->ended;
    char names[MAX_NAMES];

    if (request)
        fanin_failure(request, &completion);
    fanin_name_members(fanin_job_of(job), fanin_rank(job), &completion, names, sizeof names);
    if (*names)
        append(text, "; %s", names);
    else if (status == FANIN_OP_MISMATCH && !completion.jid)
        append(text, "; this rank's sizes contradict each other, or those of the other ranks");
}

/* The codes of an error class, made once. */
struct codes {
    int class;                /* 0 (MPI_SUCCESS): none yet */
    int code[KEPT_CODES];
    unsigned made, next;
};

static struct codes classes[3]; /* lost ranks, revoked communicators, others */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The next code of a class, or the class itself if the MPI has no codes left. */
static int next_code(int class)
{
    struct codes *codes;
    int code = class;

    pthread_mutex_lock(&lock);
    codes = classes;
    while (codes->class && codes->class != class)
        codes++;
    codes->class = class;
    if (codes->made < KEPT_CODES && pmpi.Add_error_code && !pmpi.Add_error_code(class, &code))
        codes->code[codes->made++] = code;
    else if (codes->made)
        code = codes->code[codes->next++ % codes->made];
    pthread_mutex_unlock(&lock);
    return code;
}

/* Set the text of a code. MPICH 4.0 has another for codes of its own classes: there the text is printed. */
static void set_text(int code, const char *text)
{
    char said[MAX_ERROR_STRING] = "";
    int length = 0;

    pmpi.Add_error_string(code, text);
    if (pmpi.Error_string && !pmpi.Error_string(code, said, &length) && strcmp(said, text))
        shim_say("%s", text);
}

int shim_code_with_text(int class, const char *text)
{
    int code = next_code(class);

    if (code != class)
        set_text(code, text);
    return code;
}

/* Whether a job has ended because a rank has revoked its communicator. The end of the job looks like a loss, and the
 * MPI may tell of the revocation later. The MPI does all further calls, which fail. */
static int is_revocation(handle comm, enum fanin_status status)
{
    struct communicator *communicator = comm ? shim_communicator(comm) : NULL;
    int is_left = status == FANIN_ABORTED || status == FANIN_PEER_LOST;
    int looks = is_left && shim_tells_revoked() && communicator ? REVOCATION_LOOKS : 0;

    if (looks && communicator->is_not_revoked)
        looks = 1;
    while (looks && !shim_is_revoked(comm)) {
        shim_let_mpi_progress();
        if (--looks)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (looks)
        communicator->reason = REASON_REVOKED;
    else if (is_left && communicator)
        communicator->is_not_revoked = 1;
    return looks;
}

int shim_error_code(handle comm, enum fanin_status status, enum function function,
                    const struct prepared_call *prepared, struct fanin_communicator *job,
                    const struct fanin_request *request)
{
    int class = shim_abi->error_other;
    struct fanin_communicator_state state;
    struct text text = {.length = 0};

    if (is_revocation(comm, status))
        class = shim_abi->error_revoked;
    else if (status == FANIN_PEER_LOST || status == FANIN_DEVICE_LOST)
        class = shim_error_proc_failed();
    fanin_communicator_state(job, &state);
    append(&text, "MPI_%s on Fanin: %s: ", shim_function_names[function], fanin_status_name(status));
    append_call(&text, prepared);
    append_place(&text, status, &state, request);
    append_ranks(&text, status, &state, job, request);
    append(&text, ". %s", fanin_status_remedy(status));
    return shim_code_with_text(class, text.bytes);
}
