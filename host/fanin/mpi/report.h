/* Messages on standard error, and counts of calls that were offloaded or left to the MPI. */
#ifndef FANIN_MPI_REPORT_H
#define FANIN_MPI_REPORT_H
#include "abi/call.h"
#include "fanin.h"

/* Why a call is left to the MPI: name and text. */
#define REASONS(X)                                                                                            \
    X(NO_DEVICE, "this process has no device, or not all have one")                                           \
    X(ONE_RANK, "the communicator has one rank: nothing to offload")                                 \
    X(INTERCOMM, "the communicator has two groups")                                                           \
    X(OTHER_WORLD, "some of its ranks are not in MPI_COMM_WORLD")                               \
    X(REFUSED, "its ranks could not join a job")                                                              \
    X(NO_ROOM, "the devices had no room for its job; it asks again after some calls")                         \
    X(REVOKED, "the program has revoked the communicator")                                                     \
    X(FEW_CALLS, "the communicator has had too few calls to be worth a job (FANIN_MPI_JOIN)")                \
    X(NOT_JOINED, "a non-blocking call came before a blocking one in which the ranks could join a job")        \
    X(ORDER, "the MPI has computed the communicator's first sum, so it computes all (FANIN_MPI_JOIN)")           \
    X(OP, "the program's own operation, or one that devices do not compute")                                  \
    X(TYPE, "devices do not compute with this datatype, or not this operation with it")                       \
    X(ARGUMENTS, "arguments that make no sense: the MPI reports them")                                         \
    X(SIZE, "2 GiB or more of data, and this MPI can not pack large counts")                             \
    X(THRESHOLD, "the MPI is faster, by the thresholds (FANIN_MPI_THRESHOLDS, fanin tune)")

enum reason {
#define X(name, text) REASON_##name,
    REASONS(X)
#undef X
    REASON_COUNT,
    NO_REASON = REASON_COUNT   /* the call is offloaded */
};

/* Called after the MPI's initialization. */
void shim_begin_counting(void);
void shim_count_offloaded(enum function function, uint64_t bytes);
void shim_count_left(enum function function, enum reason reason);

extern const char *const shim_function_names[FUNCTION_COUNT];
extern const char *const shim_reason_texts[REASON_COUNT];

/* Print the counts of all ranks on rank 0, below the path of MPI_COMM_WORLD's job (empty: none). All ranks of
 * MPI_COMM_WORLD call it. */
void shim_report(const char *path);

/* Print a line on rank 0 if none of its calls was offloaded. Calls no MPI function, which could end a program that has
 * lost ranks. */
void shim_report_idle(void);

/* Print "fanin: " and a line on standard error. */
void shim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, for the first call in a process only. */
#define shim_warn(...) (shim_is_first_warning() ? shim_say(__VA_ARGS__) : (void)0)
int shim_is_first_warning(void);
#endif
