/* A context: this process, its NIC, and UCC's exchange outside Fanin. */
#ifndef FANIN_SHARP_CONTEXT_H
#define FANIN_SHARP_CONTEXT_H
#include "fanin.h"
#include <sharp/api/sharp_coll.h>

struct sharp_coll_context {
    struct fanin_context *device; /* NULL: a rank has none, */
    enum fanin_status lacking;    /* for this reason, the same on all ranks */
    struct fanin_nic nic;
    struct sharp_coll_out_of_band out_of_band;
    int waits_after_failure; /* failed requests are never done, and the process lives on */
    uint32_t forks;          /* inheritance.c */
};

/* inheritance.c: note that this process has opened the context; whether it has inherited it. */
void sharp_own(struct sharp_coll_context *context);
int sharp_is_inherited(const struct sharp_coll_context *context);
#endif
