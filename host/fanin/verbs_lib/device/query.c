#define _DEFAULT_SOURCE /* htobe64 */
#include "abi/next.h"
#include "device/device.h"
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    ONE_LANE = 1,             /* active_width */
    EDR = 32,                 /* active_speed: 25 Gbit/s, for want of a rate of a software port */
    NO_VENDOR = 0xffffff,     /* vendor_id */
    LINK_UP = 5,              /* phys_state */
    MAX_READS = 16,
    MAX_REGIONS = 256,       /* of a client: `max_regions` in device/fanin_nic/hostif/client.py */
    PLENTY = 1 << 16          /* limited by memory only */
};
#define MAX_MESSAGE 0x80000000u

/* A local EUI-64 from the device's address. */
static uint64_t guid_of(uint32_t ipv4)
{
    return htobe64(0x0246414e00000000 | ipv4);
}

static void describe(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct fanin_attach_reply *limits = fanin_limits(our_fanin(context));

    *attr = (struct ibv_device_attr){
        .node_guid = guid_of(limits->address),
        .sys_image_guid = guid_of(limits->address),
        .max_mr_size = (uint64_t)1 << 46,
        .page_size_cap = ~(uint64_t)0xfff,
        .vendor_id = NO_VENDOR,
        .max_qp = (int)limits->max_ordinary_qp,
        .max_qp_wr = OUR_QUEUE_DEPTH,
        .max_sge = FANIN_MAX_SGE,
        .max_sge_rd = FANIN_MAX_SGE,
        .max_cq = (int)limits->max_cq,
        .max_cqe = FANIN_CQ_DEPTH,
        .max_mr = MAX_REGIONS,
        .max_pd = PLENTY,
        .max_qp_rd_atom = MAX_READS,
        .max_res_rd_atom = MAX_READS * (int)limits->max_ordinary_qp,
        .max_qp_init_rd_atom = MAX_READS,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_ah = PLENTY,
        .max_srq = (int)limits->max_shared_queues,
        .max_srq_wr = FANIN_SHARED_DEPTH,
        .max_srq_sge = FANIN_MAX_SGE,
        .max_pkeys = 1,
        .phys_port_cnt = 1,
    };
    snprintf(attr->fw_ver, sizeof attr->fw_ver, "host interface %u", FANIN_ABI_VERSION);
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    if (!our_context_is(context))
        return NEXT(ibv_query_device, "IBVERBS_1.1")(context, attr);
    describe(context, attr);
    return 0;
}

int our_query_device_ex(struct ibv_context *context, const void *input, struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex full = {0};

    if ((input && *(const uint32_t *)input) || size < sizeof attr->orig_attr)
        return EINVAL;
    describe(context, &full.orig_attr);
    full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
    memset(attr, 0, size);
    memcpy(attr, &full, size < sizeof full ? size : sizeof full);
    return 0;
}

/* The code of a path MTU: 1 for 256 bytes, and so on. */
static enum ibv_mtu mtu_code(uint32_t bytes)
{
    int code = IBV_MTU_4096;

    while (code > IBV_MTU_256 && 128u << code > bytes)
        code--;
    return (enum ibv_mtu)code;
}

int our_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
    const struct fanin_attach_reply *limits = fanin_limits(our_fanin(context));
    struct ibv_port_attr full = {
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = mtu_code(limits->path_mtu),
        .gid_tbl_len = 1,
        .port_cap_flags = IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = MAX_MESSAGE,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .active_width = ONE_LANE,
        .active_speed = EDR,
        .phys_state = LINK_UP,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };

    if (port != OUR_PORT)
        return EINVAL;
    memset(attr, 0, size);
    memcpy(attr, &full, size < sizeof full ? size : sizeof full);
    return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    if (!our_context_is(context))
        return NEXT(ibv_query_port, "IBVERBS_1.1")(context, port, attr);
    return our_query_port(context, port, attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* Asks a device that was never opened once, if the fabric does not give its address. */
EXPORT uint64_t ibv_get_device_guid(struct ibv_device *device)
{
    struct our_device *ours = (struct our_device *)device;
    struct fanin_context *context;

    if (!our_device_is(device))
        return NEXT(ibv_get_device_guid, "IBVERBS_1.1")(device);
    if (!__atomic_load_n(&ours->address, __ATOMIC_RELAXED)) {
        if (fanin_open(ours->socket, &context) != FANIN_SUCCESS)
            return 0;
        our_note_address(device, fanin_limits(context)->address);
        fanin_close(context);
    }
    return guid_of(__atomic_load_n(&ours->address, __ATOMIC_RELAXED));
}
