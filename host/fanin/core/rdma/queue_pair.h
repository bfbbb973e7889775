/* One RC queue pair, with its device, protection domain and completion queues. */
#ifndef FANIN_RDMA_QUEUE_PAIR_H
#define FANIN_RDMA_QUEUE_PAIR_H
#include "rdma/library.h"

enum { RDMA_SEND_DEPTH = 256, RDMA_RECEIVE_DEPTH = 512, RDMA_REAPED = 32 };

struct rdma_queue_pair {
    const struct rdma_library *library;
    struct ibv_context *device;
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel; /* of receives */
    struct ibv_cq *sends, *receives;
    struct ibv_qp *qp;
    struct fanin_endpoint endpoint;   /* what the other side needs */
    uint32_t port, gid_index;
    uint32_t inline_bytes;            /* of data that a request can carry itself */
    uint32_t posted;                  /* requests that the queue pair holds */
    uint32_t unsignaled;              /* of them, since the last one that was signaled */
    uint32_t reading;                 /* READs of them */
    uint32_t broken;                  /* it has failed: set once */
};

/* A request. `length` 0: no data. */
struct rdma_request {
    int opcode;                       /* enum fanin_send_opcode */
    const void *local;
    uint32_t length, lkey;
    uint64_t address;
    uint32_t rkey;
    uint32_t immediate;
};

/* Open `device`, or, where it is NULL, the device that has `address` (IPv4, host order); make a queue pair on it. What
 * was made before a failure is given back by fanin_rdma_close. */
enum fanin_status fanin_rdma_open(struct rdma_queue_pair *pair, const char *device, uint32_t address);
/* Connect to the other side, within `patience_ms` of which it must answer each packet. */
enum fanin_status fanin_rdma_connect(struct rdma_queue_pair *pair, const struct fanin_endpoint *other,
                                     uint32_t patience_ms);
void fanin_rdma_close(struct rdma_queue_pair *pair);

/* One thread at a time posts. FANIN_DEVICE_LOST: the queue pair has failed. Data of up to `inline_bytes` are copied;
 * others, and what a READ brings, stay in use until the request is complete. */
enum fanin_status fanin_rdma_post(struct rdma_queue_pair *pair, const struct rdma_request *request);
/* Wait until what all READs bring is here. Called as fanin_rdma_post. */
enum fanin_status fanin_rdma_await_reads(struct rdma_queue_pair *pair);
/* One thread at a time takes messages: their immediate data, up to RDMA_REAPED. Their buffers go back at once. */
int fanin_rdma_take(struct rdma_queue_pair *pair, uint32_t immediates[RDMA_REAPED]);
int fanin_rdma_is_broken(const struct rdma_queue_pair *pair);
/* Nothing is posted or taken any more. */
void fanin_rdma_fail(struct rdma_queue_pair *pair);
/* Ask for an event of the channel at the next message. */
void fanin_rdma_ask_for_event(struct rdma_queue_pair *pair);
/* Take the events that the channel has. */
void fanin_rdma_take_events(struct rdma_queue_pair *pair);
#endif
