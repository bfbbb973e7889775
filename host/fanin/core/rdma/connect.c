#define _GNU_SOURCE
#include "complaint.h"
#include "rdma/queue_pair.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

enum {
    INIT_ATTRIBUTES = FANIN_ATTR_STATE | FANIN_ATTR_PKEY_INDEX | FANIN_ATTR_PORT | FANIN_ATTR_ACCESS_FLAGS,
    RTR_ATTRIBUTES = FANIN_ATTR_STATE | FANIN_ATTR_AV | FANIN_ATTR_PATH_MTU | FANIN_ATTR_DEST_QPN | FANIN_ATTR_RQ_PSN |
                     FANIN_ATTR_MAX_DEST_RD_ATOMIC | FANIN_ATTR_MIN_RNR_TIMER,
    RTS_ATTRIBUTES = FANIN_ATTR_STATE | FANIN_ATTR_TIMEOUT | FANIN_ATTR_RETRY_CNT | FANIN_ATTR_RNR_RETRY |
                     FANIN_ATTR_SQ_PSN | FANIN_ATTR_MAX_QP_RD_ATOMIC
};
enum { HOP_LIMIT = 64, FOR_EVER = 7, NO_BUFFER_TIMER = 1 /* 10 us */, MAX_TIMEOUT = 18, READS = 16 };
enum { RETRIES = 6 }; /* the most that is finite: rxe takes 7 as infinite */
#define TICK_NS 4096ull /* the time-out of a queue pair is 2^n ticks */
#define WANTED_INLINE sizeof(struct fanin_wqe)

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* prefix of an IPv4 address as GID */

static uint8_t fewer(int one, int other)
{
    return (uint8_t)(one < other ? one : other);
}

/* Find the port and GID of `address` for RoCE v2, or, if `any`, the first of IPv4. */
static int find_gid(struct rdma_queue_pair *pair, uint32_t address, int any)
{
    struct ibv_device_attr attributes = {0};
    uint32_t wanted = htonl(address);
    int found = 0;

    if (pair->library->query_device(pair->device, &attributes))
        return 0;
    pair->endpoint.reads_asked = fewer(READS, attributes.max_qp_init_rd_atom);
    pair->endpoint.reads_answered = fewer(READS, attributes.max_qp_rd_atom);
    for (uint32_t port = 1; port <= attributes.phys_port_cnt; port++) {
        struct ibv_port_attr state = {0};
        if (pair->library->query_port(pair->device, (uint8_t)port, &state))
            continue;
        for (int index = 0; index < state.gid_tbl_len; index++) {
            struct ibv_gid_entry entry;
            int is_wanted;
            if (pair->library->query_gid_ex(pair->device, port, (uint32_t)index, &entry, 0, sizeof entry) ||
                entry.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(entry.gid.raw, mapped, sizeof mapped))
                continue;
            is_wanted = !memcmp(entry.gid.raw + sizeof mapped, &wanted, sizeof wanted);
            if (!is_wanted && (!any || found))
                continue;
            found = 1;
            pair->port = port;
            pair->gid_index = (uint32_t)index;
            pair->endpoint.path_mtu = 128u << state.active_mtu;
            memcpy(pair->endpoint.gid, entry.gid.raw, sizeof pair->endpoint.gid);
            if (is_wanted)
                return 1;
        }
    }
    return found;
}

static enum fanin_status open_device(struct rdma_queue_pair *pair, const char *device, uint32_t address)
{
    int count = 0, seen = 0;
    struct ibv_device **list = pair->library->get_device_list(&count);

    for (int i = 0; list && i < count && !pair->device; i++) {
        if (device && strcmp(device, pair->library->get_device_name(list[i])))
            continue;
        seen = 1;
        pair->device = pair->library->open_device(list[i]);
        if (pair->device && !find_gid(pair, address, device != NULL)) {
            pair->library->close_device(pair->device);
            pair->device = NULL;
        }
    }
    if (list)
        pair->library->free_device_list(list);
    if (pair->device)
        return FANIN_SUCCESS;
    if (device)
        fanin_complain("verbs device %.64s %s; use one that rdma link shows, with an IPv4 address", device,
                       seen ? "can not be opened, or has no GID of RoCE v2 over IPv4" : "does not exist");
    else
        fanin_complain("no verbs device has the address %u.%u.%u.%u, which reaches the device; name one: "
                       "rdma://VERBS-DEVICE@ADDRESS:PORT", address >> 24, address >> 16 & 255, address >> 8 & 255,
                       address & 255);
    return FANIN_NO_DEVICE;
}

static struct ibv_qp *make_qp(struct rdma_queue_pair *pair, uint32_t inline_bytes)
{
    struct ibv_qp_init_attr init = {.send_cq = pair->sends, .recv_cq = pair->receives, .qp_type = FANIN_SERVICE_RC,
                                    .cap = {RDMA_SEND_DEPTH, RDMA_RECEIVE_DEPTH, 1, 1, inline_bytes}};

    pair->inline_bytes = inline_bytes;
    return pair->library->create_qp(pair->domain, &init);
}

static enum fanin_status make(struct rdma_queue_pair *pair)
{
    const struct rdma_library *library = pair->library;

    if (!(pair->domain = library->alloc_pd(pair->device)) ||
        !(pair->channel = library->create_comp_channel(pair->device)) ||
        !(pair->sends = library->create_cq(pair->device, RDMA_SEND_DEPTH, NULL, NULL, 0)) ||
        !(pair->receives = library->create_cq(pair->device, RDMA_RECEIVE_DEPTH, NULL, pair->channel, 0)) ||
        (!(pair->qp = make_qp(pair, WANTED_INLINE)) && !(pair->qp = make_qp(pair, 0)))) {
        fanin_complain("the verbs device gives no RC queue pair: %s; raise its limits, or the limit "
                       "of locked memory (ulimit -l)",
                       strerror(errno));
        return FANIN_NO_RESOURCES;
    }
    fcntl(pair->channel->fd, F_SETFL, fcntl(pair->channel->fd, F_GETFL) | O_NONBLOCK);
    pair->endpoint.qpn = pair->qp->qp_num;
    if (getrandom(&pair->endpoint.psn, sizeof pair->endpoint.psn, 0) < 0)
        pair->endpoint.psn = pair->qp->qp_num;
    pair->endpoint.psn &= 0xffffff;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_rdma_open(struct rdma_queue_pair *pair, const char *device, uint32_t address)
{
    enum fanin_status status;

    pair->library = fanin_rdma_library();
    if (!pair->library)
        return FANIN_NO_DEVICE;
    status = open_device(pair, device, address);
    return status == FANIN_SUCCESS ? make(pair) : status;
}

static uint8_t timeout_of(uint32_t patience_ms)
{
    uint8_t timeout = 1;

    while (timeout < MAX_TIMEOUT && (TICK_NS << (timeout + 1)) * (RETRIES + 1) <= patience_ms * 1000000ull)
        timeout++;
    return timeout;
}

static int modify(struct rdma_queue_pair *pair, struct ibv_qp_attr *attributes, int state, int mask)
{
    attributes->qp_state = state;
    return pair->library->modify_qp(pair->qp, attributes, mask);
}

static int path_mtu_of(uint32_t bytes)
{
    int mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && 256u << mtu <= bytes)
        mtu++;
    return mtu;
}

static int post_buffers(struct rdma_queue_pair *pair)
{
    struct ibv_recv_wr buffer = {0}, *bad;
    int error = 0;

    for (int i = 0; i < RDMA_RECEIVE_DEPTH && !error; i++)
        error = pair->device->ops.post_recv(pair->qp, &buffer, &bad);
    return error;
}

enum fanin_status fanin_rdma_connect(struct rdma_queue_pair *pair, const struct fanin_endpoint *other,
                                     uint32_t patience_ms)
{
    uint32_t mtu = pair->endpoint.path_mtu < other->path_mtu ? pair->endpoint.path_mtu : other->path_mtu;
    struct ibv_qp_attr attributes = {
        .port_num = (uint8_t)pair->port,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
        .path_mtu = path_mtu_of(mtu),
        .dest_qp_num = other->qpn,
        .rq_psn = other->psn,
        .sq_psn = pair->endpoint.psn,
        .max_dest_rd_atomic = fewer(pair->endpoint.reads_answered, other->reads_asked),
        .max_rd_atomic = fewer(pair->endpoint.reads_asked, other->reads_answered),
        .min_rnr_timer = NO_BUFFER_TIMER,
        .timeout = timeout_of(patience_ms),
        .retry_cnt = RETRIES,
        .rnr_retry = FOR_EVER,
        .ah_attr = {.grh = {.sgid_index = (uint8_t)pair->gid_index, .hop_limit = HOP_LIMIT},
                    .is_global = 1,
                    .port_num = (uint8_t)pair->port},
    };

    if (!attributes.max_rd_atomic) {
        fanin_complain("the verbs device sends no READs, or the device's answers none; use verbs devices whose "
                       "max_qp_rd_atom and max_qp_init_rd_atom (ibv_devinfo -v) are not 0");
        return FANIN_NO_DEVICE;
    }
    memcpy(attributes.ah_attr.grh.dgid.raw, other->gid, sizeof other->gid);
    if (modify(pair, &attributes, FANIN_QP_INIT, INIT_ATTRIBUTES) || post_buffers(pair) ||
        modify(pair, &attributes, FANIN_QP_RTR, RTR_ATTRIBUTES) ||
        modify(pair, &attributes, FANIN_QP_RTS, RTS_ATTRIBUTES)) {
        fanin_complain("the queue pair can not be connected: %s; check that the two verbs devices reach each other",
                       strerror(errno));
        return FANIN_NO_DEVICE;
    }
    return FANIN_SUCCESS;
}

void fanin_rdma_close(struct rdma_queue_pair *pair)
{
    const struct rdma_library *library = pair->library;

    if (pair->qp)
        library->destroy_qp(pair->qp);
    if (pair->receives)
        library->destroy_cq(pair->receives);
    if (pair->sends)
        library->destroy_cq(pair->sends);
    if (pair->channel)
        library->destroy_comp_channel(pair->channel);
    if (pair->domain)
        library->dealloc_pd(pair->domain);
    if (pair->device)
        library->close_device(pair->device);
}
