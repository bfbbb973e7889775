/* libibverbs for tests: each Ethernet interface of this network namespace is a device, raw-NAME, with RAW_PACKET queue
 * pairs only. A queue pair sends whole frames by a packet socket, and receives by its steering rules. Each call checks
 * state, attribute mask, memory region, and room in the queues as verbs prescribe. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

#define PREFIX "raw-"
#define MATCHED 42 /* bytes of a frame that a rule can match: Ethernet, IPv4 without options, UDP */
#define MAX_FLOWS 4
#define DEPTH 4096
#define GIDS 8
#define ROOM (32 << 20) /* bytes of frames, with the kernel's overhead, that wait for buffers */
#define KEY 0x5a17

struct flow {
    struct ibv_flow flow;
    struct queue_pair *queue_pair;
    int socket;
    uint8_t value[MATCHED], mask[MATCHED];
};

struct completion_queue {
    struct ibv_cq cq;
    struct queue_pair *receiver; /* its frames complete here */
    uint64_t sent[DEPTH];        /* wr_ids of complete requests */
    unsigned first, count;
};

struct buffer {
    uint64_t number;
    struct ibv_sge piece;
};

struct queue_pair {
    struct ibv_qp qp;
    int socket; /* for sending */
    struct flow *flows[MAX_FLOWS];
    struct buffer posted[DEPTH];
    unsigned first, count, depth;
};

struct domain {
    struct ibv_pd pd;
    struct ibv_mr *region; /* at most one */
};

struct device {
    struct ibv_device device;
    int interface;
};

static void *refuse(int reason)
{
    errno = reason;
    return NULL;
}

static int interface_of(struct ibv_context *context)
{
    return ((struct device *)context->device)->interface;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct if_nameindex *names = if_nameindex();
    struct ibv_device **list = calloc(256, sizeof *list);
    *count = 0;
    for (struct if_nameindex *name = names; name->if_index && *count < 255; name++) {
        if (!strcmp(name->if_name, "lo"))
            continue;
        struct device *device = calloc(1, sizeof *device);
        snprintf(device->device.name, sizeof device->device.name, PREFIX "%s", name->if_name);
        device->interface = (int)name->if_index;
        list[(*count)++] = &device->device;
    }
    if_freenameindex(names);
    return list;
}

/* The devices stay, since a context may use one. */
void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    (void)context;
    memset(attributes, 0, sizeof *attributes);
    attributes->max_qp_wr = attributes->max_cqe = DEPTH;
    attributes->max_sge = 1;
    attributes->phys_port_cnt = 1;
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *found)
{
    struct ibv_port_attr attributes = {.active_mtu = IBV_MTU_4096, .max_mtu = IBV_MTU_4096, .gid_tbl_len = GIDS};
    struct ifreq request = {0};
    if (port != 1)
        return EINVAL;
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    if_indextoname((unsigned)interface_of(context), request.ifr_name);
    int failed = ioctl(any, SIOCGIFFLAGS, &request);
    close(any);
    attributes.state = !failed && request.ifr_flags & IFF_RUNNING ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    memcpy(found, &attributes, offsetof(struct ibv_port_attr, port_cap_flags2));
    return 0;
}

/* The GIDs are the interface's IPv4 addresses, for RoCE v2. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t size)
{
    char name[IF_NAMESIZE];
    struct ifaddrs *all, *address;
    if (port != 1 || flags || size != sizeof *entry || !if_indextoname((unsigned)interface_of(context), name))
        return EINVAL;
    if (getifaddrs(&all))
        return errno;
    uint32_t number = 0;
    for (address = all; address; address = address->ifa_next)
        if (address->ifa_addr && address->ifa_addr->sa_family == AF_INET && !strcmp(address->ifa_name, name) &&
            number++ == index)
            break;
    if (address) {
        memset(entry, 0, sizeof *entry);
        entry->gid.raw[10] = entry->gid.raw[11] = 0xff;
        memcpy(entry->gid.raw + 12, &((struct sockaddr_in *)address->ifa_addr)->sin_addr, 4);
        entry->gid_index = index;
        entry->port_num = port;
        entry->gid_type = IBV_GID_TYPE_ROCE_V2;
        entry->ndev_ifindex = (uint32_t)interface_of(context);
    }
    freeifaddrs(all);
    return address ? 0 : ENODATA;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct domain *domain = calloc(1, sizeof *domain);
    domain->pd.context = context;
    return &domain->pd;
}

int ibv_dealloc_pd(struct ibv_pd *domain)
{
    if (((struct domain *)domain)->region)
        return EBUSY;
    free(domain);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *domain, void *start, size_t length, int access)
{
    if (!(access & IBV_ACCESS_LOCAL_WRITE) || ((struct domain *)domain)->region)
        return refuse(EINVAL);
    struct ibv_mr *region = calloc(1, sizeof *region);
    *region = (struct ibv_mr){.context = domain->context, .pd = domain, .addr = start, .length = length, .lkey = KEY};
    ((struct domain *)domain)->region = region;
    return region;
}

int ibv_dereg_mr(struct ibv_mr *region)
{
    ((struct domain *)region->pd)->region = NULL;
    free(region);
    return 0;
}

static int is_in_region(struct queue_pair *pair, struct ibv_sge *piece)
{
    struct ibv_mr *region = ((struct domain *)pair->qp.pd)->region;
    uint64_t start = (uint64_t)(uintptr_t)region->addr;
    return piece->lkey == KEY && piece->addr >= start && piece->addr + piece->length <= start + region->length;
}

/* A channel is an epoll set; a request for an event arms the sockets of a queue pair in it. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    channel->context = context;
    channel->fd = epoll_create1(EPOLL_CLOEXEC);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int depth, void *own, struct ibv_comp_channel *channel,
                             int vector)
{
    if (depth < 1 || depth > DEPTH || vector)
        return refuse(EINVAL);
    struct completion_queue *queue = calloc(1, sizeof *queue);
    queue->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = own, .cqe = depth};
    return &queue->cq;
}

int ibv_destroy_cq(struct ibv_cq *queue)
{
    free(queue);
    return 0;
}

static int arm(struct queue_pair *pair, struct flow *flow, uint32_t events)
{
    struct epoll_event wanted = {.events = events | EPOLLONESHOT};
    int channel = pair->qp.recv_cq->channel->fd;
    if (!epoll_ctl(channel, EPOLL_CTL_MOD, flow->socket, &wanted))
        return 0;
    return epoll_ctl(channel, EPOLL_CTL_ADD, flow->socket, &wanted) ? errno : 0;
}

static int request_event(struct ibv_cq *cq, int solicited)
{
    struct queue_pair *pair = ((struct completion_queue *)cq)->receiver;
    (void)solicited;
    for (int i = 0; i < MAX_FLOWS; i++)
        if (pair->flows[i])
            arm(pair, pair->flows[i], EPOLLIN);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **queue, void **own)
{
    struct epoll_event event;
    (void)queue, (void)own; /* callers have one queue per channel */
    if (epoll_wait(channel->fd, &event, 1, 0) == 1)
        return 0;
    errno = EAGAIN;
    return -1;
}

void ibv_ack_cq_events(struct ibv_cq *queue, unsigned count)
{
    (void)queue, (void)count;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context, (void)event;
    errno = EAGAIN;
    return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *wanted)
{
    if (wanted->qp_type != IBV_QPT_RAW_PACKET)
        return refuse(EOPNOTSUPP);
    if (wanted->cap.max_recv_wr > DEPTH || wanted->cap.max_send_wr > DEPTH || wanted->cap.max_inline_data)
        return refuse(EINVAL);
    int frames = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* EPERM without CAP_NET_RAW, as in verbs */
    if (frames < 0)
        return NULL;
    struct queue_pair *pair = calloc(1, sizeof *pair);
    pair->qp = (struct ibv_qp){.context = domain->context, .pd = domain, .send_cq = wanted->send_cq};
    pair->qp.recv_cq = wanted->recv_cq;
    pair->qp.qp_type = wanted->qp_type;
    pair->qp.qp_num = 1;
    pair->socket = frames;
    pair->depth = wanted->cap.max_recv_wr;
    ((struct completion_queue *)wanted->recv_cq)->receiver = pair;
    return &pair->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    for (int i = 0; i < MAX_FLOWS; i++)
        if (pair->flows[i])
            return EBUSY;
    close(pair->socket);
    free(pair);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    static const struct {
        enum ibv_qp_state from, to;
        int mask;
    } prescribed[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PORT},
        {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE},
        {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE},
    };
    struct queue_pair *pair = (struct queue_pair *)qp;
    if (attributes->qp_state == IBV_QPS_RESET && mask == IBV_QP_STATE) {
        pair->first = pair->count = 0;
        qp->state = IBV_QPS_RESET;
        return 0;
    }
    for (size_t i = 0; i < sizeof prescribed / sizeof *prescribed; i++)
        if (prescribed[i].from == qp->state && prescribed[i].to == attributes->qp_state && prescribed[i].mask == mask) {
            qp->state = attributes->qp_state;
            return 0;
        }
    return EINVAL;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    struct completion_queue *done = (struct completion_queue *)qp->send_cq;
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = interface_of(qp->context)};
    for (; request; request = request->next) {
        *bad = request;
        if (qp->state != IBV_QPS_RTS || request->opcode != IBV_WR_SEND || request->num_sge != 1 ||
            !is_in_region(pair, request->sg_list))
            return EINVAL;
        if (done->count == DEPTH)
            return ENOMEM;
        const void *frame = (const void *)(uintptr_t)request->sg_list->addr;
        (void)!sendto(pair->socket, frame, request->sg_list->length, 0, (struct sockaddr *)&to, sizeof to); /* or lost */
        if (request->send_flags & IBV_SEND_SIGNALED)
            done->sent[(done->first + done->count++) % DEPTH] = request->wr_id;
    }
    return 0;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    for (; request; request = request->next) {
        *bad = request;
        if (qp->state == IBV_QPS_RESET || request->num_sge != 1 || !is_in_region(pair, request->sg_list))
            return EINVAL;
        if (pair->count == pair->depth)
            return ENOMEM;
        pair->posted[(pair->first + pair->count++) % DEPTH] = (struct buffer){request->wr_id, *request->sg_list};
    }
    return 0;
}

/* Take the next frame of a rule; without a buffer it waits. Returns whether there is one. */
static int take(struct queue_pair *pair, struct flow *flow, struct ibv_wc *completion)
{
    while (pair->count) {
        struct buffer *buffer = &pair->posted[pair->first];
        uint8_t *frame = (uint8_t *)(uintptr_t)buffer->piece.addr;
        ssize_t length = recv(flow->socket, frame, buffer->piece.length, MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0)
            return 0;
        int is_steered = length >= MATCHED;
        for (int i = 0; i < MATCHED && is_steered; i++)
            is_steered = (frame[i] & flow->mask[i]) == flow->value[i];
        if (!is_steered)
            continue;
        *completion = (struct ibv_wc){.wr_id = buffer->number, .opcode = IBV_WC_RECV, .byte_len = (uint32_t)length};
        completion->status = (size_t)length <= buffer->piece.length ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
        completion->qp_num = pair->qp.qp_num;
        pair->first = (pair->first + 1) % DEPTH;
        pair->count--;
        return 1;
    }
    return 0;
}

static int poll_queue(struct ibv_cq *cq, int most, struct ibv_wc *completions)
{
    struct completion_queue *queue = (struct completion_queue *)cq;
    int found = 0;
    for (; found < most && queue->count; queue->count--) {
        completions[found] = (struct ibv_wc){.wr_id = queue->sent[queue->first], .status = IBV_WC_SUCCESS};
        completions[found++].opcode = IBV_WC_SEND;
        queue->first = (queue->first + 1) % DEPTH;
    }
    struct queue_pair *pair = queue->receiver;
    if (pair && pair->qp.state != IBV_QPS_RESET)
        for (int i = 0; i < MAX_FLOWS; i++)
            while (pair->flows[i] && found < most && take(pair, pair->flows[i], &completions[found]))
                found++;
    return found;
}

static void match(struct flow *flow, int offset, const void *value, const void *mask, int size)
{
    for (int i = 0; i < size; i++) {
        flow->mask[offset + i] = ((const uint8_t *)mask)[i];
        flow->value[offset + i] = ((const uint8_t *)value)[i] & flow->mask[offset + i];
    }
}

/* Read a rule. Returns whether its parts are Ethernet, IPv4 and UDP, with the right lengths. */
static int read_rule(struct flow *flow, struct ibv_flow_attr *rule)
{
    static const uint8_t all[2] = {0xff, 0xff}, ipv4[2] = {8, 0}, udp = 17;
    uint8_t *part = (uint8_t *)(rule + 1), *end = (uint8_t *)rule + rule->size;
    for (int i = 0; i < rule->num_of_specs; i++) {
        if (part + sizeof(struct ibv_flow_spec_tcp_udp) > end)
            return 0;
        struct ibv_flow_spec *spec = (struct ibv_flow_spec *)part;
        if (spec->hdr.type == IBV_FLOW_SPEC_ETH && spec->hdr.size == sizeof spec->eth) {
            match(flow, 0, spec->eth.val.dst_mac, spec->eth.mask.dst_mac, 6);
            match(flow, 6, spec->eth.val.src_mac, spec->eth.mask.src_mac, 6);
            match(flow, 12, &spec->eth.val.ether_type, &spec->eth.mask.ether_type, 2);
        } else if (spec->hdr.type == IBV_FLOW_SPEC_IPV4 && spec->hdr.size == sizeof spec->ipv4) {
            match(flow, 12, ipv4, all, 2);
            match(flow, 26, &spec->ipv4.val.src_ip, &spec->ipv4.mask.src_ip, 4);
            match(flow, 30, &spec->ipv4.val.dst_ip, &spec->ipv4.mask.dst_ip, 4);
        } else if (spec->hdr.type == IBV_FLOW_SPEC_UDP && spec->hdr.size == sizeof spec->tcp_udp) {
            match(flow, 23, &udp, all, 1);
            match(flow, 34, &spec->tcp_udp.val.src_port, &spec->tcp_udp.mask.src_port, 2);
            match(flow, 36, &spec->tcp_udp.val.dst_port, &spec->tcp_udp.mask.dst_port, 2);
        } else {
            return 0;
        }
        part += spec->hdr.size;
    }
    return part == end;
}

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *rule)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    struct sockaddr_ll here = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    struct flow *flow = calloc(1, sizeof *flow);
    int slot = 0, on = 1, room = ROOM;
    while (slot < MAX_FLOWS && pair->flows[slot])
        slot++;
    if (slot == MAX_FLOWS || rule->type != IBV_FLOW_ATTR_NORMAL || rule->port != 1 || rule->flags || rule->comp_mask ||
        !read_rule(flow, rule)) {
        free(flow);
        return refuse(EINVAL);
    }
    here.sll_ifindex = interface_of(qp->context);
    flow->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    setsockopt(flow->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    setsockopt(flow->socket, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    if (bind(flow->socket, (struct sockaddr *)&here, sizeof here)) {
        int reason = errno;
        close(flow->socket);
        free(flow);
        return refuse(reason);
    }
    flow->flow.context = qp->context;
    flow->queue_pair = pair;
    pair->flows[slot] = flow;
    return &flow->flow;
}

static int destroy_flow(struct ibv_flow *made)
{
    struct flow *flow = (struct flow *)made;
    for (int i = 0; i < MAX_FLOWS; i++)
        if (flow->queue_pair->flows[i] == flow)
            flow->queue_pair->flows[i] = NULL;
    close(flow->socket);
    free(flow);
    return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct verbs_context *whole = calloc(1, sizeof *whole);
    struct ibv_context *context = &whole->context;
    whole->sz = sizeof *whole;
    if (!getenv("RAW_DEVICE_WITHOUT_RULES")) {
        whole->ibv_create_flow = create_flow;
        whole->ibv_destroy_flow = destroy_flow;
    }
    context->abi_compat = __VERBS_ABI_IS_EXTENDED;
    context->device = device;
    context->async_fd = eventfd(0, EFD_CLOEXEC); /* this device has no events */
    context->ops.poll_cq = poll_queue;
    context->ops.req_notify_cq = request_event;
    context->ops.post_send = post_send;
    context->ops.post_recv = post_receive;
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    close(context->async_fd);
    free(verbs_get_ctx(context));
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *domain, struct ibv_ah_attr *attributes)
{
    (void)domain, (void)attributes;
    return refuse(EOPNOTSUPP);
}

int ibv_destroy_ah(struct ibv_ah *handle)
{
    (void)handle;
    return EINVAL;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}
