/* What is done with a device, by the way to it: shared memory (local.c) or RDMA (remote.c). Requests and completions do
 * not go through this table: rings.c stores and takes them, and calls remote.c. */
#ifndef FANIN_ACCESS_H
#define FANIN_ACCESS_H
#include "device/connection.h"

struct device_access {
    enum fanin_status (*connect)(struct fanin_context *context, const char *address);
    /* Make the control region, and take the limits. */
    enum fanin_status (*attach)(struct fanin_context *context);
    /* Give back everything but the socket and the control region. */
    void (*close)(struct fanin_context *context);

    /* Messages of the control connection, as fanin_send_message and fanin_receive_message. */
    enum fanin_status (*send)(struct fanin_context *context, const void *message, size_t size, int fd);
    ssize_t (*receive)(struct fanin_context *context, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS]);

    void (*wake)(struct fanin_context *context);
    /* Whether the device is out of reach, although the control connection stands. */
    int (*is_broken)(const struct fanin_context *context);
    /* Keep a lost device from our memory. Returns whether nothing that it has posted over RDMA reaches our memory any
     * more. It may be called again, and by several threads. */
    int (*cut)(struct fanin_context *context);

    /* A queue has been made: its rings begin empty. */
    void (*begin_cq)(struct fanin_context *context, uint32_t cq);
    void (*begin_qp)(struct fanin_context *context, uint32_t qp);
    /* As fanin_await_results. */
    enum fanin_status (*await_results)(struct fanin_context *context, uint32_t timeout_ms);

    /* `message` is overwritten with the reply. */
    enum fanin_status (*register_memory)(struct fanin_context *context, struct fanin_register *message, int memfd);
    enum fanin_status (*deregister_memory)(struct fanin_context *context, uint32_t lkey);
};

extern const struct device_access fanin_local_access, fanin_remote_access;

#endif
