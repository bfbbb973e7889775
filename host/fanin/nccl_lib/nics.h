/* The devices that NCCL may choose from: the NICs of this host, in the order in which libfanin finds them. */
#ifndef FANIN_NCCL_NICS_H
#define FANIN_NCCL_NICS_H
#include "fanin.h"
#include "nccl_abi.h"

/* How many there are. They are looked for once. */
int nccl_nic_count(void);
/* One of them, by its number; NULL: there is no such one. */
const struct fanin_nic *nccl_nic(int number);

/* A connection to one, which all users in this process share. Each gives it back. */
enum fanin_status nccl_hold_nic(int number, struct fanin_context **context);
void nccl_release_nic(int number);

/* Memory that the device reads and writes in place: NCCL's own is not, since its pages are those of a driver. */
struct nccl_staging {
    void *address;
    uint64_t bytes;
    uint32_t lkey;
};
/* Make room for `bytes`. The memory may move. */
enum fanin_status nccl_stage(struct fanin_context *context, struct nccl_staging *staging, uint64_t bytes);
void nccl_unstage(struct fanin_context *context, struct nccl_staging *staging);

/* Properties by version. NCCL_INVALID_ARGUMENT: there is no such device. */
int nccl_properties_8(int number, struct nccl_properties_v8 *properties);
int nccl_properties_9(int number, struct nccl_properties_v9 *properties);
int nccl_properties_11(int number, struct nccl_properties_v11 *properties);
int nccl_properties_12(int number, struct nccl_properties_v12 *properties);
#endif
