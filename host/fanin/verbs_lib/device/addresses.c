/* A port has one GID, from the device's IPv4 address, and the default partition. */
#define _DEFAULT_SOURCE /* getifaddrs */
#include "abi/next.h"
#include "device/device.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

union ibv_gid our_gid_of(uint32_t ipv4)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

    ipv4 = htonl(ipv4);
    memcpy(gid.raw + 12, &ipv4, sizeof ipv4);
    return gid;
}

uint32_t our_ipv4_of(const union ibv_gid *gid)
{
    union ibv_gid mapped;
    uint32_t ipv4;

    memcpy(&ipv4, gid->raw + 12, sizeof ipv4);
    mapped = our_gid_of(ntohl(ipv4));
    return memcmp(gid, &mapped, sizeof mapped) ? 0 : ntohl(ipv4);
}

static union ibv_gid own_gid(struct ibv_context *context)
{
    return our_gid_of(fanin_limits(our_fanin(context))->address);
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    if (!our_context_is(context))
        return NEXT(ibv_query_gid, "IBVERBS_1.1")(context, port, index, gid);
    if (port != OUR_PORT || index != 0)
        return our_minus_one(EINVAL);
    *gid = own_gid(context);
    return 0;
}

/* Whether an interface has an address; a loopback interface has its whole network. */
static int has_address(const struct ifaddrs *interface, uint32_t ipv4)
{
    struct sockaddr_in address, mask = {.sin_addr.s_addr = UINT32_MAX};

    if (!interface->ifa_addr || interface->ifa_addr->sa_family != AF_INET)
        return 0;
    memcpy(&address, interface->ifa_addr, sizeof address);
    if (interface->ifa_flags & IFF_LOOPBACK)
        memcpy(&mask, interface->ifa_netmask, sizeof mask);
    return ((address.sin_addr.s_addr ^ htonl(ipv4)) & mask.sin_addr.s_addr) == 0;
}

static uint32_t interface_of(uint32_t ipv4)
{
    struct ifaddrs *all;
    uint32_t found = 0;

    if (getifaddrs(&all))
        return 0;
    for (const struct ifaddrs *each = all; each && !found; each = each->ifa_next)
        if (has_address(each, ipv4))
            found = if_nametoindex(each->ifa_name);
    freeifaddrs(all);
    return found;
}

static void fill_entry(struct ibv_context *context, struct ibv_gid_entry *entry, size_t size)
{
    struct ibv_gid_entry full = {
        .gid = own_gid(context), .port_num = OUR_PORT, .gid_type = IBV_GID_TYPE_ROCE_V2,
        .ndev_ifindex = interface_of(fanin_limits(our_fanin(context))->address)};

    memset(entry, 0, size);
    memcpy(entry, &full, size < sizeof full ? size : sizeof full);
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                             uint32_t flags, size_t size)
{
    if (!our_context_is(context))
        return NEXT(_ibv_query_gid_ex, "IBVERBS_1.11")(context, port, index, entry, flags, size);
    if (port != OUR_PORT || flags)
        return EINVAL;
    if (index != 0)
        return ENODATA;
    fill_entry(context, entry, size);
    return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t capacity,
                                    uint32_t flags, size_t size)
{
    if (!our_context_is(context))
        return NEXT(_ibv_query_gid_table, "IBVERBS_1.11")(context, entries, capacity, flags, size);
    if (flags || capacity == 0)
        return -EINVAL;
    fill_entry(context, entries, size);
    return 1;
}

/* Not in the public header, but rdma-core's tools use it. */
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, unsigned int *type)
{
    if (!our_context_is(context))
        return NEXT(ibv_query_gid_type, "IBVERBS_PRIVATE_34")(context, port, index, type);
    if (port != OUR_PORT || index != 0)
        return our_minus_one(EINVAL);
    *type = IBV_GID_TYPE_SYSFS_ROCE_V2;
    return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, uint16_t *pkey)
{
    if (!our_context_is(context))
        return NEXT(ibv_query_pkey, "IBVERBS_1.1")(context, port, index, pkey);
    if (port != OUR_PORT || index != 0)
        return our_minus_one(EINVAL);
    *pkey = htons(OUR_PARTITION);
    return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, uint16_t pkey)
{
    if (!our_context_is(context))
        return NEXT(ibv_get_pkey_index, "IBVERBS_1.5")(context, port, pkey);
    return port == OUR_PORT && ntohs(pkey) == OUR_PARTITION ? 0 : our_minus_one(EINVAL);
}
