/* What ranks tell each other outside Fanin, so that all of them decide alike: a rank that goes another way than the
 * rest would wait for ever. */
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

/* Each rank's `own` (`bytes` long) in the order of the ranks, at all of them. FANIN_ABORTED: UCC could not, which has
 * been said. Where only rank 0 could not, the others get zeros. */
enum fanin_status sharp_exchange(const struct ranks *ranks, const void *own, size_t bytes, void *all);

/* What all ranks make of the `status` that each has: that of the lowest rank that has failed; else FANIN_PENDING, if
 * a rank has it; else FANIN_SUCCESS. FANIN_ABORTED, FANIN_VERSION_MISMATCH: they could not agree. The rank that has
 * failed says that `what` has; `words` as in sharp_failed. It takes no memory, so that a rank without any can say
 * so. */
enum fanin_status sharp_agree(const struct ranks *ranks, enum fanin_status status, const char *what, const char *words);
#endif
