/* NCCL's point-to-point network over TCP, required beside the collective one. */
#ifndef FANIN_NCCL_SOCKETS_H
#define FANIN_NCCL_SOCKETS_H
#include "nccl_abi.h"

/* As in `collectives.h`. Messages of a connection stay in order. */
int socket_listen(int nic, void *handle, void **listener);
int socket_connect(int nic, void *handle, void **connection);
int socket_accept(void *listener, void **connection); /* *connection NULL: none yet */
int socket_send(void *connection, void *data, size_t bytes, void **request);
/* bytes: room. A longer message is an error. */
int socket_receive(void *connection, void *data, size_t bytes, void **request);
int socket_test(void *request, int *done, int *bytes);
int socket_close(void *connection);
int socket_close_listener(void *listener);
#endif
