/* What the environment says; that of rank 0 counts, on all ranks. Plain data: it is broadcast as it stands. */
#ifndef FANIN_MPI_SETTINGS_H
#define FANIN_MPI_SETTINGS_H
#include "abi/call.h"

struct range {
    uint64_t least, most;      /* bytes of a message; least > most: none */
};

struct settings {
    uint32_t report, strict;
    uint32_t route;            /* enum fanin_route, or FANIN_ROUTE_AUTO */
    uint32_t slots;            /* seg buffers that the job of a communicator asks of each device */
    uint32_t join_ms;
    uint32_t late;             /* communicators join at first use only */
    struct range ranges[FUNCTION_COUNT]; /* what is offloaded */
};

extern struct settings shim_settings;

/* Read FANIN_MPI_REPORT, FANIN_MPI_STRICT, FANIN_MPI_THRESHOLDS, FANIN_MPI_SLOTS, FANIN_MPI_JOIN (early, late),
 * FANIN_MPI_JOIN_SECONDS, FANIN_ROUTE. */
void shim_read_settings(void);

/* Parse thresholds into `ranges`: "allreduce=0-, bcast=4k-64m, barrier=off", names as of MPI, "all" for every function.
 * Returns NULL, or where the text can not be read. */
const char *shim_parse_thresholds(const char *text, struct range *ranges);
#endif
