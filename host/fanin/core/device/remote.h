/* A device on another host, or on the card of this one, that is reached by RDMA: rdma://[VERBS-DEVICE@]HOST:PORT.
 *
 * The control region is a copy: what the host stores in it is written to the device's, and the device writes its
 * completions here. See docs/host-over-rdma.md.
 */
#ifndef FANIN_REMOTE_H
#define FANIN_REMOTE_H
#include "device/connection.h"

struct fanin_remote;

/* Whether an address is that of a device over RDMA. */
int fanin_is_remote_address(const char *address);
/* The number of characters of an address at the beginning of a list with ':' between. */
size_t fanin_remote_address_length(const char *list);
/* Connect the control connection of a context. */
enum fanin_status fanin_remote_connect(struct fanin_context *context, const char *address);
/* Attach: queue pair, copy of the control region, `limits` of the context. */
enum fanin_status fanin_remote_attach(struct fanin_context *context);
void fanin_remote_close(struct fanin_context *context);

/* Write the request that has just been stored in a send ring, and tell the device. */
enum fanin_status fanin_remote_send(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *stored);
/* Read how far the device has emptied a ring. */
enum fanin_status fanin_remote_look(struct fanin_context *context, struct fanin_ring *ring);
/* Store the completions that have come as such, and wake who waits for them. */
void fanin_remote_take(struct fanin_context *context);
/* Tell the device, now and then, how far a completion ring has been emptied. */
void fanin_remote_consumed(struct fanin_context *context, uint32_t cq, struct fanin_ring *ring);
/* Wake the device, and ask for its beat, and whether a completion ring has overrun. */
void fanin_remote_wake(struct fanin_context *context);
int fanin_remote_is_broken(const struct fanin_context *context);
/* A reply says how many markers the device had posted before it. */
void fanin_remote_expect(struct fanin_context *context, uint32_t markers);
/* Wait until these have come, and with them all that the device has written before. FANIN_PENDING: not by `deadline`
 * (ms of fanin_now_ms). */
enum fanin_status fanin_remote_await_results(struct fanin_context *context, uint64_t deadline);
/* Destroy our queue pair, or else deregister all memory. Returns whether nothing that the device has posted reaches our
 * memory any more. It may be called again, and by several threads. */
int fanin_remote_cut(struct fanin_context *context);
/* A queue has been made: its rings begin empty. */
void fanin_remote_clear_cq(struct fanin_context *context, uint32_t cq);
void fanin_remote_clear_qp(struct fanin_context *context, uint32_t qp);

/* Register memory with the verbs device; its remote key. */
enum fanin_status fanin_remote_register(struct fanin_context *context, void *address, uint64_t length, uint32_t access,
                                        void **region, uint32_t *rkey);
/* Keep a region under the key of the device, or, without one, give it back at once. */
void fanin_remote_keep(struct fanin_context *context, void *region, const uint32_t *lkey);
/* Give back the region that was kept under a key. */
void fanin_remote_forget(struct fanin_context *context, uint32_t lkey);

/* stream.c: messages over TCP, as those of connection.h over a UNIX socket. */
enum fanin_status fanin_stream_connect(int *descriptor, const char *host, const char *port);
uint32_t fanin_stream_own_address(int descriptor);
enum fanin_status fanin_stream_send(int descriptor, const void *message, size_t size);
ssize_t fanin_stream_receive(int descriptor, void *buffer, size_t capacity);
#endif
