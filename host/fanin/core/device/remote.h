/* A device on another host, or on the card of this one, that is reached by RDMA: rdma://[VERBS-DEVICE@]HOST:PORT.
 *
 * The control region is a copy: what the host stores in it is written to the device's, and the device writes its
 * completions here. See record 0108.
 */
#ifndef FANIN_REMOTE_H
#define FANIN_REMOTE_H
#include "device/connection.h"

struct fanin_remote;

/* Whether an address is that of a device over RDMA. */
int fanin_is_remote_address(const char *address);
/* The number of characters of an address at the beginning of a list with ':' between. */
size_t fanin_remote_address_length(const char *list);

/* Write the request that has just been stored in a send ring, and tell the device. */
enum fanin_status fanin_remote_send(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *stored);
/* Read how far the device has emptied a ring. */
enum fanin_status fanin_remote_look(struct fanin_context *context, struct fanin_ring *ring);
/* Store the completions that have come as such, and wake who waits for them. */
void fanin_remote_take(struct fanin_context *context);
/* Tell the device, now and then, how far a completion ring has been emptied. */
void fanin_remote_consumed(struct fanin_context *context, uint32_t cq, struct fanin_ring *ring);

/* stream.c: messages over TCP, as those of connection.h over a UNIX socket. */
enum fanin_status fanin_stream_connect(int *descriptor, const char *host, const char *port);
uint32_t fanin_stream_own_address(int descriptor);
enum fanin_status fanin_stream_send(int descriptor, const void *message, size_t size);
ssize_t fanin_stream_receive(int descriptor, void *buffer, size_t capacity);
#endif
