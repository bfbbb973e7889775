/* NCCL's point-to-point network, which a library with a collective one must have as well: streams over TCP. */
#ifndef FANIN_NCCL_SOCKETS_H
#define FANIN_NCCL_SOCKETS_H
#include "nccl_abi.h"

/* As `collectives.h` says. Messages of a connection arrive in the order in which they were sent. */
int socket_listen(int nic, void *handle, void **listener);
int socket_connect(int nic, void *handle, void **connection);
int socket_accept(void *listener, void **connection); /* *connection NULL: nobody yet */
int socket_send(void *connection, void *data, size_t bytes, void **request);
/* bytes: room; a longer message is an error. */
int socket_receive(void *connection, void *data, size_t bytes, void **request);
int socket_test(void *request, int *done, int *bytes);
int socket_close(void *connection);
int socket_close_listener(void *listener);
#endif
