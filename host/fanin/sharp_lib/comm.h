#ifndef FANIN_SHARP_COMM_H
#define FANIN_SHARP_COMM_H
#include "context.h"

enum { COLLECTIVE_KINDS = FANIN_BARRIER + 1 };

struct sharp_coll_comm {
    struct sharp_coll_context *context;
    struct fanin_communicator *communicator;
    uint64_t begun[COLLECTIVE_KINDS]; /* collectives of each kind */
};
#endif
