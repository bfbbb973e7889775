/* Access to a device through shared memory (local.c) or RDMA (remote.c). Requests and completions do not go through
 * this table, but through rings.c, which calls remote.c. */
#ifndef FANIN_ACCESS_H
#define FANIN_ACCESS_H
#include "device/connection.h"

struct device_access {
    enum fanin_status (*connect)(struct fanin_context *context, const char *address);
    /* Map or make the control region, and store the limits. */
    enum fanin_status (*attach)(struct fanin_context *context);
    /* Release everything except the socket and the control region. */
    void (*close)(struct fanin_context *context);

    /* As fanin_send_message and fanin_receive_message. */
    enum fanin_status (*send)(struct fanin_context *context, const void *message, size_t size, int fd);
    ssize_t (*receive)(struct fanin_context *context, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS]);

    void (*wake)(struct fanin_context *context);
    /* Whether the device is out of reach although the control connection is open. */
    int (*is_broken)(const struct fanin_context *context);
    /* Keep a lost device from this process's memory. Returns whether nothing that it posted over RDMA can reach it any
     * more. May be called repeatedly and by several threads. */
    int (*cut)(struct fanin_context *context);

    /* Empty the rings of a new queue. */
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
