/* Long messages of blocking calls, piece by piece: while devices work on one, the next is copied into registered memory
 * and the one before it out of it.
 *
 * To the devices each piece is a message of its own, so all ranks must cut alike: only what they all know decides, and
 * how a rank has its data in memory is its own affair. One block is cut as plan.h says; a piece of several blocks, which
 * only calls that block are cut into, has a part of each of them.
 */
#ifndef FANIN_MPI_PIECES_H
#define FANIN_MPI_PIECES_H
#include "operation.h"

/* Whether a message is sent in pieces, if the call blocks. The same on all ranks. */
int fanin_is_long(const struct meaning *meaning);

/* As fanin_prepare, for such a message. */
int fanin_prepare_pieces(struct operation *operation, const struct terms *terms, int ranks);

/* The operation has ended: give back the memory of its pieces, unless a device may still write there. */
void fanin_release_pieces(struct operation *operation);
#endif
