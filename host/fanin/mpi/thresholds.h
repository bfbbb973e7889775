/* The sizes of messages to offload, by MPI, route and number of ranks: FANIN_MPI_THRESHOLDS.
 *
 * ";" or a new line separates the groups of a text:
 *
 *     all=off, allreduce=4k-64m                   for every communicator
 *     open-mpi local 4: bcast=256k-, barrier=off  for those of four ranks and more below one NIC, with Open MPI
 *     one-host tree: all=off                      for those below several NICs of one machine
 *     crowded local: allreduce=4k-                where a host has more ranks than CPUs
 *
 *     requests=0-16m                              for all non-blocking and persistent calls, beside the others
 *
 * A later group overrides an earlier one. "#" begins a comment. "all" includes requests, except in "all=off". */
#ifndef FANIN_MPI_THRESHOLDS_H
#define FANIN_MPI_THRESHOLDS_H
#include "abi/call.h"
#include "fanin.h"

struct range {
    uint64_t least, most;      /* bytes of a message; least > most: no size */
};

/* A word of a setting, and its code. */
struct choice {
    const char *name;
    uint32_t value;
};

/* Ranges of the functions, and of non-blocking and persistent calls; of such a call both must hold. */
enum { REQUESTS = FUNCTION_COUNT, RANGE_COUNT };

extern const struct choice shim_routes[]; /* enum fanin_route, FANIN_ROUTE_AUTO first; the last has no name */

/* The setting for which a text is read. */
struct setting {
    uint32_t route;            /* enum fanin_route; FANIN_ROUTE_AUTO: none */
    uint32_t ranks;
    int on_one_host;           /* all NICs have loopback addresses */
    int is_crowded;            /* a host has more ranks than CPUs */
};

/* The defaults, measured by `fanin tune` on two hosts with 2 cores, over four network namespaces, and, with a core for
 * each rank and Open MPI, on a host with 16. They include only sizes for which the devices are faster on all. */
extern const char shim_shipped_thresholds[];

/* Read the groups of a text that hold for `setting` into `ranges`; other functions keep theirs. Returns NULL, or the
 * place of an error. */
const char *shim_read_thresholds(const char *text, const struct setting *setting, struct range *ranges);

/* The name of a route other than FANIN_ROUTE_AUTO in such a text. */
const char *shim_route_name(uint32_t route);

/* Write a range: "4k-64m", "0-" or "off". */
void shim_write_range(const struct range *range, char *text, size_t capacity);

static inline int shim_is_within(const struct range *range, uint64_t bytes)
{
    return bytes >= range->least && bytes <= range->most;
}
#endif
