/* NCCL's devices: the NICs of this host, in libfanin's order. */
#ifndef FANIN_NCCL_NICS_H
#define FANIN_NCCL_NICS_H
#include "fanin.h"
#include "nccl_abi.h"

/* Their number; looked for once. */
int nccl_nic_count(void);
const struct fanin_nic *nccl_nic(int number);

/* A connection, shared by all users in this process; each gives it back. */
enum fanin_status nccl_hold_nic(int number, struct fanin_context **context);
void nccl_release_nic(int number);

struct nccl_staging {
    void *address;
    uint64_t bytes;
    uint32_t lkey;
};
/* Make room for `bytes`. The memory may move. */
enum fanin_status nccl_stage(struct fanin_context *context, struct nccl_staging *staging, uint64_t bytes);
void nccl_unstage(struct fanin_context *context, struct nccl_staging *staging);

/* Properties by version. NCCL_INVALID_ARGUMENT: no such device. */
int nccl_properties_8(int number, struct nccl_properties_v8 *properties);
int nccl_properties_9(int number, struct nccl_properties_v9 *properties);
int nccl_properties_11(int number, struct nccl_properties_v11 *properties);
int nccl_properties_12(int number, struct nccl_properties_v12 *properties);
#endif
