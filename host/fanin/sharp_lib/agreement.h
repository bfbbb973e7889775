/* What ranks tell each other outside Fanin, so that all of them decide alike: a rank that goes another way than the rest
 * would wait for ever. */
#ifndef FANIN_SHARP_AGREEMENT_H
#define FANIN_SHARP_AGREEMENT_H
#include "fanin.h"
#include <sharp/api/sharp_coll.h>

/* The ranks of the world or of a group, and how they talk. */
struct ranks {
    const struct sharp_coll_out_of_band *out_of_band;
    void *oob_ctx;
    int rank, size;
};

/* Each rank's `own` (`bytes` long) in the order of the ranks, at all of them. SHARP_COLL_ERROR: UCC could not. */
int sharp_exchange(const struct ranks *ranks, const void *own, size_t bytes, void *all);

/* What all ranks make of the `status` that each has: SHARP_COLL_SUCCESS only if all have FANIN_SUCCESS, else
 * SHARP_COLL_ENO_RESOURCE. The lowest rank that has not says why, in the words of `what`. */
int sharp_agree(const struct ranks *ranks, enum fanin_status status, const char *what);
#endif
