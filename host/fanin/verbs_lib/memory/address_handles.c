#include "abi/next.h"
#include "device/device.h"
#include "objects.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int is_multicast(uint32_t ipv4)
{
    return ipv4 >> 28 == 14;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct our_ah *ah;
    uint32_t ipv4;

    if (!our_context_is(pd->context))
        return NEXT(ibv_create_ah, "IBVERBS_1.1")(pd, attr);
    ipv4 = attr->is_global ? our_ipv4_of(&attr->grh.dgid) : 0;
    if (!ipv4 || is_multicast(ipv4) || attr->port_num != OUR_PORT || attr->grh.sgid_index != 0)
        return our_null(EINVAL);
    ah = calloc(1, sizeof *ah);
    if (!ah)
        return our_null(ENOMEM);
    *ah = (struct our_ah){.base = {.context = pd->context, .pd = pd}, .ipv4 = ipv4};
    our_use(&our_pd(pd)->users);
    return &ah->base;
}

/* With IPv4 the last 20 bytes of the GRH are the IPv4 header. */
EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                               struct ibv_ah_attr *attr)
{
    enum { SOURCE = 20 + 12 };
    uint32_t source;

    if (!our_context_is(context))
        return NEXT(ibv_init_ah_from_wc, "IBVERBS_1.1")(context, port, wc, grh, attr);
    if (port != OUR_PORT || !(wc->wc_flags & IBV_WC_GRH))
        return our_minus_one(EINVAL);
    memcpy(&source, (const char *)grh + SOURCE, sizeof source);
    *attr = (struct ibv_ah_attr){.grh = {.dgid = our_gid_of(ntohl(source)), .hop_limit = 64},
                                 .sl = wc->sl, .is_global = 1, .port_num = port};
    return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
    struct ibv_ah_attr attr;

    if (!our_context_is(pd->context))
        return NEXT(ibv_create_ah_from_wc, "IBVERBS_1.1")(pd, wc, grh, port);
    return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    if (!our_context_is(ah->context))
        return NEXT(ibv_destroy_ah, "IBVERBS_1.1")(ah);
    our_release(&our_pd(ah->pd)->users);
    free(ah);
    return 0;
}

/* Only the device needs the link address. */
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
                                       uint16_t *vid)
{
    if (!our_context_is(context))
        return NEXT(ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1")(context, attr, mac, vid);
    return our_minus_one(EOPNOTSUPP);
}
