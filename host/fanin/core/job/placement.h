#ifndef FANIN_PLACEMENT_H
#define FANIN_PLACEMENT_H
#include "fanin.h"

/* `lost` has a byte for each rank: 1 for those that a completion at `rank` names. Sets it for all ranks that any rank
 * may believe lost, since failures are named by bits that get coarser with the distance. */
void fanin_widen(const struct fanin_job *job, uint32_t rank, uint8_t *lost);
#endif
