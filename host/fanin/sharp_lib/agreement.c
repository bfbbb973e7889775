/* UCC gives a gather and a broadcast; rank 0 is the root of both. All ranks call both, whatever has failed: a rank that
 * leaves one out would let the others wait. */
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

enum fanin_status sharp_exchange(const struct ranks *ranks, const void *own, size_t bytes, void *all)
{
    const struct sharp_coll_out_of_band *by = ranks->out_of_band;
    size_t total = bytes * (size_t)ranks->size;
    int failed = total > INT_MAX;

    if (!failed) {
        failed = by->gather(ranks->oob_ctx, 0, (void *)own, all, (int)bytes) < 0;
        if (failed)
            memset(all, 0, total); /* so that all see that rank 0 has nothing */
        failed |= by->bcast(ranks->oob_ctx, all, (int)total, 0) < 0;
    }
    if (!failed)
        return FANIN_SUCCESS;
    sharp_say("ABORTED: UCC could not exchange %zu bytes for each of %d ranks: its log says why (UCC_LOG_LEVEL=info)",
              bytes, ranks->size);
    return FANIN_ABORTED;
}

static enum fanin_status check_marks(const struct ranks *ranks, const struct vote *votes)
{
    const struct vote nothing = {.status = 0};

    if (!memcmp(&votes[0], &nothing, sizeof nothing))
        return FANIN_ABORTED; /* rank 0 could not gather, and has said so */
    for (int rank = 0; rank < ranks->size; rank++) {
        if (!memcmp(votes[rank].mark, MARK, sizeof MARK))
            continue;
        if (ranks->rank == 0)
            sharp_say("VERSION_MISMATCH: rank %d has another version of libsharp_coll than rank 0: let all hosts load "
                      "the same", rank);
        return FANIN_VERSION_MISMATCH;
    }
    return FANIN_SUCCESS;
}

static enum fanin_status count_votes(const struct ranks *ranks, const struct vote *votes, const char *what,
                                     const char *words)
{
    enum fanin_status agreed = FANIN_SUCCESS;

    for (int rank = 0; rank < ranks->size; rank++) {
        enum fanin_status status = (enum fanin_status)votes[rank].status;

        if (status == FANIN_PENDING)
            agreed = FANIN_PENDING;
        if (status == FANIN_PENDING || status == FANIN_SUCCESS)
            continue;
        if (ranks->rank == rank)
            sharp_failed(status, what, words);
        return status;
    }
    return agreed;
}

enum fanin_status sharp_agree(const struct ranks *ranks, enum fanin_status status, const char *what, const char *words)
{
    struct vote own = {.status = status}, *votes = calloc((size_t)ranks->size, sizeof own);
    enum fanin_status agreed;

    if (!votes)
        return FANIN_NO_RESOURCES;
    memcpy(own.mark, MARK, sizeof MARK);
    agreed = sharp_exchange(ranks, &own, sizeof own, votes);
    if (agreed == FANIN_SUCCESS)
        agreed = check_marks(ranks, votes);
    if (agreed == FANIN_SUCCESS)
        agreed = count_votes(ranks, votes, what, words);
    free(votes);
    return agreed;
}
