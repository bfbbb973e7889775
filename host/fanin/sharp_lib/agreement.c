/* UCC gives a gather and a broadcast; rank 0 is the root of both. */
#include "agreement.h"
#include "log.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char MARK[8] = "fanin-1"; /* of what ranks exchange; another version has another one */

struct vote {
    char mark[8];
    uint32_t status, reserved;
};

int sharp_exchange(const struct ranks *ranks, const void *own, size_t bytes, void *all)
{
    const struct sharp_coll_out_of_band *by = ranks->out_of_band;
    size_t total = bytes * (size_t)ranks->size;

    if (total <= INT_MAX && by->gather(ranks->oob_ctx, 0, (void *)own, all, (int)bytes) >= 0 &&
        by->bcast(ranks->oob_ctx, all, (int)total, 0) >= 0)
        return SHARP_COLL_SUCCESS;
    sharp_say("ABORTED: UCC could not exchange %zu bytes for each of %d ranks: its own log says why (UCC_LOG_LEVEL=info)",
              bytes, ranks->size);
    return SHARP_COLL_ERROR;
}

static int count_votes(const struct ranks *ranks, const struct vote *votes, const char *what)
{
    for (int rank = 0; rank < ranks->size; rank++) {
        if (memcmp(votes[rank].mark, MARK, sizeof MARK)) {
            if (ranks->rank == 0)
                sharp_say("VERSION_MISMATCH: rank %d has another version of libsharp_coll than rank 0: let all hosts load "
                          "the same", rank);
            return SHARP_COLL_ENO_RESOURCE;
        }
        if (votes[rank].status != FANIN_SUCCESS) {
            if (ranks->rank == rank)
                sharp_failed((enum fanin_status)votes[rank].status, what, "");
            return SHARP_COLL_ENO_RESOURCE;
        }
    }
    return SHARP_COLL_SUCCESS;
}

int sharp_agree(const struct ranks *ranks, enum fanin_status status, const char *what)
{
    struct vote own = {.status = status}, *votes = calloc((size_t)ranks->size, sizeof own);
    int result = SHARP_COLL_ENOMEM;

    memcpy(own.mark, MARK, sizeof MARK);
    if (votes)
        result = sharp_exchange(ranks, &own, sizeof own, votes);
    if (result == SHARP_COLL_SUCCESS)
        result = count_votes(ranks, votes, what);
    free(votes);
    return result;
}
