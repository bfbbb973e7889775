/* One RC queue pair, with its device, protection domain and completion queues. */
#ifndef FANIN_RDMA_QUEUE_PAIR_H
#define FANIN_RDMA_QUEUE_PAIR_H
#include "rdma/library.h"

enum { RDMA_SEND_DEPTH = 256, RDMA_RECEIVE_DEPTH = 512, RDMA_REAPED = 32 };

struct rdma_queue_pair {
    const struct rdma_library *library;
    struct ibv_context *device;
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel; /* of `receives` */
    struct ibv_cq *sends, *receives;
    struct ibv_qp *qp;
    struct fanin_endpoint endpoint;   /* for the other side */
    uint32_t port, gid_index;
    uint32_t inline_bytes;            /* the most that a request can carry inline */
    uint32_t posted;                  /* requests under way */
    uint32_t unsignaled;              /* requests since the last signaled one */
    uint32_t reading;                 /* READs under way */
    uint32_t broken;                  /* it has failed: set once */
};

struct rdma_request {
    int opcode;                       /* enum fanin_send_opcode */
    const void *local;
    uint32_t length, lkey;
    uint64_t address;
    uint32_t rkey;
    uint32_t immediate;
};

/* Open `device`, or, if NULL, the device with `address` (IPv4, host order), and create a queue pair. fanin_rdma_close
 * frees everything, also after a failure. */
enum fanin_status fanin_rdma_open(struct rdma_queue_pair *pair, const char *device, uint32_t address);
/* Connect to the other side, which must answer each packet within `patience_ms`. */
enum fanin_status fanin_rdma_connect(struct rdma_queue_pair *pair, const struct fanin_endpoint *other,
                                     uint32_t patience_ms);
void fanin_rdma_close(struct rdma_queue_pair *pair);

/* One thread at a time posts. Data of up to `inline_bytes` are copied; other memory stays in use until completion.
 * FANIN_DEVICE_LOST: the queue pair has failed. */
enum fanin_status fanin_rdma_post(struct rdma_queue_pair *pair, const struct rdma_request *request);
/* Wait for all READs. Called as fanin_rdma_post. */
enum fanin_status fanin_rdma_await_reads(struct rdma_queue_pair *pair);
/* Take the immediate data of up to RDMA_REAPED messages, and repost their buffers. One thread at a time. */
int fanin_rdma_take(struct rdma_queue_pair *pair, uint32_t immediates[RDMA_REAPED]);
int fanin_rdma_is_broken(const struct rdma_queue_pair *pair);
/* Post and take nothing more. */
void fanin_rdma_fail(struct rdma_queue_pair *pair);
/* Ask for an event of the channel at the next message. */
void fanin_rdma_ask_for_event(struct rdma_queue_pair *pair);
/* Take all events of the channel. */
void fanin_rdma_take_events(struct rdma_queue_pair *pair);
#endif
