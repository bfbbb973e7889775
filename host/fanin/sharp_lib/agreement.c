/* UCC provides a gather and a broadcast; their root is rank 0. All ranks call both even after a failure, or the others
 * would wait, so votes use only the stack. Record 0080 (docs/decisions) says why ranks vote on each group. */
#include "agreement.h"
#include "log.h"
#include <limits.h>
#include <string.h>

#define MAGIC 0x46530002u /* differs in each version of the exchange */

enum { NOBODY = -1 };

struct vote {
    uint32_t magic, status;
};

/* The result of a vote. rank: the one that has failed, or NOBODY. */
struct verdict {
    uint32_t magic, status;
    int32_t rank;
};

static enum fanin_status say_that_ucc_failed(const struct ranks *ranks, size_t bytes)
{
    sharp_say("ABORTED: UCC could not exchange %zu bytes for each of %d ranks: its log says why (UCC_LOG_LEVEL=info)",
              bytes, ranks->size);
    return FANIN_ABORTED;
}

enum fanin_status sharp_exchange(const struct ranks *ranks, const void *own, size_t bytes, void *all)
{
    const struct sharp_coll_out_of_band *by = ranks->out_of_band;
    size_t total = bytes * (size_t)ranks->size;
    int failed = total > INT_MAX;

    if (!failed) {
        failed = by->gather(ranks->oob_ctx, 0, (void *)own, all, (int)bytes) < 0;
        if (failed)
            memset(all, 0, total); /* tells all that rank 0 has failed */
        failed |= by->bcast(ranks->oob_ctx, all, (int)total, 0) < 0;
    }
    if (!failed)
        return FANIN_SUCCESS;
    return say_that_ucc_failed(ranks, bytes);
}

static struct verdict count_votes(const struct ranks *ranks, const struct vote *votes)
{
    struct verdict verdict = {.magic = MAGIC, .status = FANIN_SUCCESS, .rank = NOBODY};

    for (int rank = 0; rank < ranks->size; rank++) {
        if (votes[rank].magic == MAGIC)
            continue;
        sharp_say("VERSION_MISMATCH: rank %d has a different version of libsharp_coll than rank 0: let all hosts load "
                  "the same", rank);
        verdict.status = FANIN_VERSION_MISMATCH;
        return verdict;
    }
    for (int rank = 0; rank < ranks->size; rank++) {
        if (votes[rank].status == FANIN_SUCCESS)
            continue;
        verdict.status = votes[rank].status;
        if (verdict.status == FANIN_PENDING)
            continue;
        verdict.rank = rank;
        return verdict;
    }
    return verdict;
}

/* Returns whether UCC's gather worked; at rank 0 also the verdict, which tells the others. */
static int gather_votes(const struct ranks *ranks, enum fanin_status status, struct verdict *verdict)
{
    struct vote own = {.magic = MAGIC, .status = status}, votes[ranks->rank ? 1 : ranks->size];
    int failed = ranks->out_of_band->gather(ranks->oob_ctx, 0, &own, votes, sizeof own) < 0;

    if (failed)
        *verdict = (struct verdict){.magic = MAGIC, .status = FANIN_ABORTED, .rank = NOBODY};
    else if (!ranks->rank)
        *verdict = count_votes(ranks, votes);
    return !failed;
}

enum fanin_status sharp_agree(const struct ranks *ranks, enum fanin_status status, const char *what, const char *words)
{
    struct verdict verdict = {.magic = 0};
    int gathered = gather_votes(ranks, status, &verdict);

    if (ranks->out_of_band->bcast(ranks->oob_ctx, &verdict, sizeof verdict, 0) < 0 || !gathered)
        return say_that_ucc_failed(ranks, sizeof verdict);
    if (verdict.magic != MAGIC)
        return FANIN_VERSION_MISMATCH; /* rank 0 has reported it */
    if (verdict.rank == ranks->rank)
        sharp_failed((enum fanin_status)verdict.status, what, words);
    return (enum fanin_status)verdict.status;
}
