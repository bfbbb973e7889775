/* Exchanges outside Fanin by which all ranks decide alike: a rank that decides differently would wait for ever. */
#ifndef FANIN_SHARP_AGREEMENT_H
#define FANIN_SHARP_AGREEMENT_H
#include "fanin.h"
#include <sharp/api/sharp_coll.h>

/* The ranks of the world or of a group, and their exchange. */
struct ranks {
    const struct sharp_coll_out_of_band *out_of_band;
    void *oob_ctx;
    int rank, size;
};

/* Gather each rank's `own`, of `bytes` bytes, into `all` on every rank. FANIN_ABORTED: UCC failed, which is reported;
 * if only on rank 0, the others get zeros. */
enum fanin_status sharp_exchange(const struct ranks *ranks, const void *own, size_t bytes, void *all);

/* The common result of all ranks' `status`: that of the lowest failed rank, otherwise FANIN_PENDING if a rank has it,
 * otherwise FANIN_SUCCESS. FANIN_ABORTED, FANIN_VERSION_MISMATCH: no agreement. The failed rank reports `what` and
 * `words` as in sharp_failed. Allocates no memory, so that a rank without memory can vote. */
enum fanin_status sharp_agree(const struct ranks *ranks, enum fanin_status status, const char *what, const char *words);
#endif
