/* What the shim tells the user: lines on the error output, and counts of the calls that were offloaded or left to the
 * MPI. */
#ifndef FANIN_MPI_REPORT_H
#define FANIN_MPI_REPORT_H
#include "abi/call.h"
#include "fanin.h"

/* Reasons for which a call is left to the MPI: name and text. */
#define REASONS(X)                                                                                            \
    X(NO_DEVICE, "this process has no device, or not all have one")                                           \
    X(ONE_RANK, "the communicator has one rank: there is nothing to offload")                                 \
    X(INTERCOMM, "the communicator has two groups")                                                           \
    X(OTHER_WORLD, "some of its ranks were started apart, or without MPI_Init")                               \
    X(REFUSED, "its ranks could not join a job")                                                              \
    X(NO_ROOM, "the devices had no room for its job; it asks again after some calls")                         \
    X(REVOKED, "the program has revoked the communicator")                                                     \
    X(FEW_CALLS, "the communicator has had too few calls to be worth a job (FANIN_MPI_JOIN)")                \
    X(NOT_JOINED, "a non-blocking call came before a call in which its ranks could agree on a job")        \
    X(ORDER, "the MPI has made the first sum of the communicator, so it makes them all (FANIN_MPI_JOIN)")           \
    X(OP, "the program's own operation, or one that devices do not compute")                                  \
    X(TYPE, "devices do not compute with this datatype, or not this operation with it")                       \
    X(ARGUMENTS, "arguments that make no sense: the MPI reports them")                                         \
    X(SIZE, "2 GiB or more to be moved, and this MPI packs no large counts")                             \
    X(THRESHOLD, "left by thresholds, where the MPI is faster (FANIN_MPI_THRESHOLDS, fanin tune)")

enum reason {
#define X(name, text) REASON_##name,
    REASONS(X)
#undef X
    REASON_COUNT,
    NO_REASON = REASON_COUNT   /* the call is offloaded */
};

/* MPI has been initialized. */
void shim_begin_counting(void);
void shim_count_offloaded(enum function function, uint64_t bytes);
void shim_count_left(enum function function, enum reason reason);

extern const char *const shim_function_names[FUNCTION_COUNT];
extern const char *const shim_reason_texts[REASON_COUNT];

/* Add up the counts of all ranks, and print them on rank 0, below the way of MPI_COMM_WORLD's job (empty: it has none).
 * All ranks of MPI_COMM_WORLD call it. */
void shim_report(const char *path);

/* Print a line on rank 0 if none of its calls was offloaded. No rank talks to another: the program may have gone on
 * without ranks that have died, and then a call of the MPI would end it. */
void shim_report_idle(void);

/* Print a line on the error output, with "fanin: " before it. */
void shim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, but only for the first call in a process. */
#define shim_warn(...) (shim_is_first_warning() ? shim_say(__VA_ARGS__) : (void)0)
int shim_is_first_warning(void);
#endif
