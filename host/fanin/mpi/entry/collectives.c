/* The entries of the collectives, in all forms. If the MPI lacks a form with large counts, the one with int counts
 * takes its place; programs built for this MPI do not call other missing forms. */
#include "calls/fast_path.h"
#include "entry/entry.h"
#include "requests/requests.h"
#include <limits.h>
#include <stdlib.h>

#define ERR_COUNT 2 /* MPI_ERR_COUNT, the same everywhere */

static int lacking(const struct call *call)
{
    int code = shim_abi->error_other;

    pmpi.Comm_call_errhandler(call->comm, code);
    return code;
}

/* Replace an array of large counts by int ones. Returns 0 if a count does not fit, or without memory. */
static int narrow_array(const void **array, int length)
{
    const int64_t *large = *array;
    int *items = large ? malloc(sizeof *items * (size_t)length) : NULL, fit = items || !large;

    for (int i = 0; items && i < length; i++) {
        items[i] = (int)large[i];
        fit &= items[i] == large[i];
    }
    *array = items;
    return fit;
}

/* Make the counts of a call int. Returns 0 on failure. */
static int narrow(struct call *call)
{
    int ranks = 0, fit = call->send.count <= INT_MAX && call->receive.count <= INT_MAX;

    pmpi.Comm_size(call->comm, &ranks);
    fit &= narrow_array(&call->send.counts, ranks) & narrow_array(&call->send.offsets, ranks);
    fit &= narrow_array(&call->receive.counts, ranks) & narrow_array(&call->receive.offsets, ranks);
    return fit;
}

static int free_narrowed(const struct call *call, int code)
{
    const void *const arrays[] = {call->send.counts, call->send.offsets, call->receive.counts, call->receive.offsets};

    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free((void *)arrays[i]);
    return code;
}

#define CALL(TABLE, PARAMETER)                                      \
    ({                                                              \
        struct call call = shim_empty_call(TABLE, IS_##PARAMETER);  \
        (void)(TABLE##_PARAMETERS(STORE));                          \
        call;                                                       \
    })

/* An entry. PARAMETER: SHORT or LARGE. MORE: parameters that the form adds; GIVEN: their names. LEFT: whether the call
 * `seen` is left to the MPI at once. */
#define FORM(name, TABLE, PARAMETER, LEFT, OFFLOADED, OTHERWISE, MORE, GIVEN)                                   \
    ENTRY(name, (TABLE##_PARAMETERS(PARAMETER) MORE), (TABLE##_PARAMETERS(NAME) GIVEN))                         \
    {                                                                                                           \
        const struct call seen = CALL(TABLE, PARAMETER);                                                        \
        struct call call;                                                                                       \
        int code;                                                                                               \
        if (LEFT && pmpi.name)                                                                                  \
            return pmpi.name(TABLE##_PARAMETERS(NAME) GIVEN);                                                   \
        call = seen;                                                                                            \
        if (OFFLOADED)                                                                                          \
            return code;                                                                                        \
        return pmpi.name ? pmpi.name(TABLE##_PARAMETERS(NAME) GIVEN) : OTHERWISE;                               \
    }
#define IS_SHORT 0
#define IS_LARGE 1

/* The form with int counts in place of one with large counts. */
#define NARROWED(name, TABLE, GIVEN) (narrow(&call) ? pmpi.name(TABLE##_PARAMETERS(INT_FIELD) GIVEN) : ERR_COUNT)

#define NOTHING
#define REQUEST_PARAMETER , void *request
#define REQUEST , request
#define INFO_PARAMETER , handle info, void *request
#define INFO , info, request
#define BLOCKING_FORM(name, TABLE, PARAMETER, OTHERWISE) \
    FORM(name, TABLE, PARAMETER, shim_is_left_at_once(&seen), shim_blocking(&call, &code), OTHERWISE, NOTHING, NOTHING)
#define NONBLOCKING_FORM(name, TABLE, PARAMETER, OTHERWISE)                                              \
    FORM(name, TABLE, PARAMETER, 0, shim_make_request(&call, NONBLOCKING, request, &code), OTHERWISE, \
         REQUEST_PARAMETER, REQUEST)
#define PERSISTENT_FORM(name, TABLE, PARAMETER, OTHERWISE)                                                   \
    FORM(name, TABLE, PARAMETER, 0, shim_make_request(&call, PERSISTENT, request, &code), OTHERWISE, \
         INFO_PARAMETER, INFO)

#define X(name, lower, TABLE, collective)                    \
    BLOCKING_FORM(name, TABLE, SHORT, lacking(&call))        \
    NONBLOCKING_FORM(I##lower, TABLE, SHORT, lacking(&call)) \
    PERSISTENT_FORM(name##_init, TABLE, SHORT, lacking(&call))
COLLECTIVES(X)
#undef X

/* Narrowed counts of requests are never freed, since the MPI may read them until a request has ended. */
#define X(name, lower, TABLE, collective)                                                              \
    BLOCKING_FORM(name##_c, TABLE, LARGE, free_narrowed(&call, NARROWED(name, TABLE, NOTHING)))        \
    NONBLOCKING_FORM(I##lower##_c, TABLE, LARGE, NARROWED(I##lower, TABLE, REQUEST))                   \
    PERSISTENT_FORM(name##_init_c, TABLE, LARGE,                                                       \
                    pmpi.name##_init ? NARROWED(name##_init, TABLE, INFO) : lacking(&call))
COUNTED_COLLECTIVES(X)
#undef X
