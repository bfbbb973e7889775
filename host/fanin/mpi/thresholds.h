/* The sizes of messages that are worth offloading, by the MPI, the route and the number of ranks: FANIN_MPI_THRESHOLDS.
 *
 * A text has groups, with ";" or a new line between them:
 *
 *     all=off, allreduce=4k-64m                   for every communicator
 *     open-mpi local 4: bcast=256k-, barrier=off  for those of four ranks and more below one NIC, with Open MPI
 *     one-host tree: all=off                      for those below several NICs of one machine
 *     crowded local: allreduce=4k-                where a host has more ranks than CPUs
 *
 *     requests=0-16m                              for all non-blocking and persistent calls, beside the others
 *
 * A later group overrides an earlier one. "#" begins a comment. "all" is also for requests, but for "all=off".
 */
#ifndef FANIN_MPI_THRESHOLDS_H
#define FANIN_MPI_THRESHOLDS_H
#include "abi/call.h"
#include "fanin.h"

struct range {
    uint64_t least, most;      /* bytes of a message; least > most: no size */
};

/* A word of a setting. */
struct choice {
    const char *name;
    uint32_t value;
};

/* Sizes for each function, and the sizes of non-blocking and persistent calls of any function: both must hold. */
enum { REQUESTS = FUNCTION_COUNT, RANGE_COUNT };

extern const struct choice shim_routes[]; /* enum fanin_route, FANIN_ROUTE_AUTO first; the last has no name */

/* What a text is read for. */
struct setting {
    uint32_t route;            /* enum fanin_route; FANIN_ROUTE_AUTO: of none */
    uint32_t ranks;
    int on_one_host;           /* all NICs have loopback addresses: they are processes of one machine */
    int is_crowded;            /* a host of its ranks has more ranks than CPUs: those of an MPI wait for each other */
};

/* The defaults. Measured by `fanin tune` on two hosts with 2 cores, and over four network namespaces; with a core for
 * each rank, with Open MPI on a host of 16. Sizes that the devices do faster on one of them only stay with the MPI. */
extern const char shim_shipped_thresholds[];

/* Read the groups of a text that hold for `setting` into `ranges`; those of the functions that it does not name stay.
 * Returns NULL, or from where on the text makes no sense. */
const char *shim_read_thresholds(const char *text, const struct setting *setting, struct range *ranges);

/* The name of a route other than FANIN_ROUTE_AUTO, as it stands in such a text. */
const char *shim_route_name(uint32_t route);

/* Write a range as it is read, such as "4k-64m", "0-", "off". */
void shim_write_range(const struct range *range, char *text, size_t capacity);

static inline int shim_is_within(const struct range *range, uint64_t bytes)
{
    return bytes >= range->least && bytes <= range->most;
}
#endif
