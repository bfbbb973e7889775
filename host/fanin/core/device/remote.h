/* A device that is reached by RDMA, at rdma://[VERBS-DEVICE@]HOST:PORT. The control region is a copy: the host writes
 * what it stores there to the device's region, and the device writes its completions here (record 0108). */
#ifndef FANIN_REMOTE_H
#define FANIN_REMOTE_H
#include "device/connection.h"

struct fanin_remote;

/* Whether an address is that of a device over RDMA. */
int fanin_is_remote_address(const char *address);
/* Characters of the first address of a list that ':' separates. */
size_t fanin_remote_address_length(const char *list);

/* Write a request that has been stored in a send ring to the device. */
enum fanin_status fanin_remote_send(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *stored);
/* Read how far the device has emptied a ring. */
enum fanin_status fanin_remote_look(struct fanin_context *context, struct fanin_ring *ring);
/* Publish completions that have come, and wake waiting threads. */
void fanin_remote_take(struct fanin_context *context);
/* Tell the device from time to time how far a completion ring has been emptied. */
void fanin_remote_consumed(struct fanin_context *context, uint32_t cq, struct fanin_ring *ring);

/* ---- tcp.c: as transport.c, over TCP ---- */
enum fanin_status fanin_tcp_connect(int *descriptor, const char *host, const char *port);
uint32_t fanin_tcp_own_address(int descriptor);
enum fanin_status fanin_tcp_send(int descriptor, const void *message, size_t size);
ssize_t fanin_tcp_receive(int descriptor, void *buffer, size_t capacity);
#endif
