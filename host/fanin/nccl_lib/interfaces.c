/* The interfaces that NCCL looks for, newest first: a table of functions for each version. A name with a number is a
 * wrapper for that version and later ones. 0: NCCL does not call it, by the properties. */
#include "collectives.h"
#include "log.h"
#include "nics.h"
#include "sockets.h"

typedef int (*profiler)(void **, int, void *, int64_t, void *);

static int devices(int *count)
{
    char fabrics[300];

    *count = nccl_nic_count();
    if (*count)
        return NCCL_SUCCESS;
    fanin_name_fabrics(fabrics, sizeof fabrics);
    nccl_say(NCCL_LOG_WARN, "Fanin: NO_DEVICE: no NIC of this host is found; %s%s", *fabrics ? "up are " :
             "bring a fabric up (fanin fabric up), or name the sockets of the NICs in FANIN_SOCKET", fabrics);
    return NCCL_SUCCESS;
}

/* ---- Initialization ---- */

static int init_8(nccl_logger logger)
{
    nccl_use_logger(logger);
    return NCCL_SUCCESS;
}

static int init_10(nccl_logger logger, profiler profiler_of_nccl)
{
    (void)profiler_of_nccl;
    return init_8(logger);
}

static int init_11(void **context, uint64_t id, void *config, nccl_logger logger, profiler profiler_of_nccl)
{
    (void)id, (void)config;
    *context = NULL;
    return init_10(logger, profiler_of_nccl);
}

static int collective_init_11(void **context, uint64_t id, nccl_logger logger)
{
    (void)id;
    *context = NULL;
    return init_8(logger);
}

static int finalize(void *context)
{
    (void)context;
    return NCCL_SUCCESS;
}

/* Connections: since 11 with a context, in 10 with a configuration. `offload`: for GPU kernels. */

static int socket_connect_8(int nic, void *handle, void **connection, void **offload)
{
    (void)offload;
    return socket_connect(nic, handle, connection);
}

static int socket_connect_10(int nic, void *config, void *handle, void **connection, void **offload)
{
    (void)config;
    return socket_connect_8(nic, handle, connection, offload);
}

static int socket_connect_11(void *context, int nic, void *handle, void **connection, void **offload)
{
    (void)context;
    return socket_connect_8(nic, handle, connection, offload);
}

static int socket_accept_8(void *listener, void **connection, void **offload)
{
    (void)offload;
    return socket_accept(listener, connection);
}

static int socket_listen_11(void *context, int nic, void *handle, void **listener)
{
    (void)context;
    return socket_listen(nic, handle, listener);
}

static int collective_listen_11(void *context, int nic, void *handle, void **listener)
{
    (void)context;
    return collective_listen(nic, handle, listener);
}

/* Requests: 8 has 32-bit lengths, 10 and later a handle for a profiler. */

static int socket_send_8(void *connection, void *data, int bytes, int tag, void *registration, void **request)
{
    (void)tag, (void)registration;
    return socket_send(connection, data, (size_t)bytes, request);
}

static int socket_send_9(void *connection, void *data, size_t bytes, int tag, void *registration, void **request)
{
    (void)tag, (void)registration;
    return socket_send(connection, data, bytes, request);
}

static int socket_send_10(void *connection, void *data, size_t bytes, int tag, void *registration, void *profiled,
                          void **request)
{
    (void)profiled;
    return socket_send_9(connection, data, bytes, tag, registration, request);
}

static int socket_receive_8(void *connection, int count, void **data, int *bytes, int *tags, void **registrations,
                            void **request)
{
    (void)count, (void)tags, (void)registrations;
    return socket_receive(connection, data[0], (size_t)bytes[0], request);
}

static int socket_receive_9(void *connection, int count, void **data, size_t *bytes, int *tags, void **registrations,
                            void **request)
{
    (void)count, (void)tags, (void)registrations;
    return socket_receive(connection, data[0], bytes[0], request);
}

static int socket_receive_10(void *connection, int count, void **data, size_t *bytes, int *tags, void **registrations,
                             void **profiled, void **request)
{
    (void)profiled;
    return socket_receive_9(connection, count, data, bytes, tags, registrations, request);
}

static int socket_flush(void *connection, int count, void **data, int *bytes, void **registrations, void **request)
{
    (void)connection, (void)count, (void)data, (void)bytes, (void)registrations;
    *request = NULL;
    return NCCL_SUCCESS;
}

static int allreduce_8(void *group, void *source, void *destination, int count, int datatype, int op,
                       void *source_registration, void *destination_registration, void **request)
{
    return collective_allreduce(group, source, destination, (size_t)count, datatype, op, source_registration,
                                destination_registration, request);
}

#define MAX_PIECES_8 8
static int widen(int count, const struct nccl_piece_v8 *pieces, struct nccl_piece *wide)
{
    if (count < 0 || count > MAX_PIECES_8)
        return NCCL_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++)
        wide[i] = (struct nccl_piece){pieces[i].registration, pieces[i].address, pieces[i].bytes};
    return NCCL_SUCCESS;
}

static int allgather_8(void *group, void *source, int count, struct nccl_piece_v8 *pieces, size_t block, size_t window,
                       size_t bytes, void *registration, void **request)
{
    struct nccl_piece wide[MAX_PIECES_8];
    int result = widen(count, pieces, wide);

    return result ? result
                  : collective_allgather(group, source, count, wide, block, window, bytes, registration, request);
}

static int reduce_scatter_8(void *group, int count, struct nccl_piece_v8 *pieces, void *destination, size_t block,
                            size_t window, size_t bytes, int datatype, int op, void *registration, void **request)
{
    struct nccl_piece wide[MAX_PIECES_8];
    int result = widen(count, pieces, wide);

    return result ? result
                  : collective_reduce_scatter(group, count, wide, destination, block, window, bytes, datatype, op,
                                              registration, request);
}

/* The tables, in the order of net_vN.h. */

#define E(function) (nccl_entry)(function)
#define INTERFACE(symbol, ...) \
    __attribute__((visibility("default"))) struct nccl_interface symbol = {"Fanin", {__VA_ARGS__}}

#define NET_MEMORY E(collective_register), 0, E(collective_deregister)
#define NET_ENDS \
    E(socket_flush), E(socket_test), E(socket_close), E(socket_close), E(socket_close_listener), 0, 0

INTERFACE(ncclNetPlugin_v8, E(init_8), E(devices), E(nccl_properties_8), E(socket_listen), E(socket_connect_8),
          E(socket_accept_8), NET_MEMORY, E(socket_send_8), E(socket_receive_8), NET_ENDS);
INTERFACE(ncclNetPlugin_v9, E(init_8), E(devices), E(nccl_properties_9), E(socket_listen), E(socket_connect_8),
          E(socket_accept_8), NET_MEMORY, E(socket_send_9), E(socket_receive_9), NET_ENDS, 0);
INTERFACE(ncclNetPlugin_v10, E(init_10), E(devices), E(nccl_properties_9), E(socket_listen), E(socket_connect_10),
          E(socket_accept_8), NET_MEMORY, E(socket_send_10), E(socket_receive_10), NET_ENDS, 0);
INTERFACE(ncclNetPlugin_v11, E(init_11), E(devices), E(nccl_properties_11), E(socket_listen_11), E(socket_connect_11),
          E(socket_accept_8), NET_MEMORY, E(socket_send_10), E(socket_receive_10), NET_ENDS, 0, E(finalize), 0);
INTERFACE(ncclNetPlugin_v12, E(init_11), E(devices), E(nccl_properties_12), E(socket_listen_11), E(socket_connect_11),
          E(socket_accept_8), NET_MEMORY, E(socket_send_10), E(socket_receive_10), NET_ENDS, 0, E(finalize), 0);

#define COLLECTIVE_MEMORY E(collective_is_supported), E(collective_register), 0, E(collective_deregister)
#define COLLECTIVE_WORK E(collective_allreduce), E(collective_allgather), E(collective_reduce_scatter)
#define COLLECTIVE_ENDS \
    E(collective_flush), E(collective_test), E(collective_close), E(collective_close_listener)

INTERFACE(ncclCollNetPlugin_v8, E(init_8), E(devices), E(nccl_properties_8), E(collective_listen),
          E(collective_connect), COLLECTIVE_MEMORY, E(allreduce_8), E(allgather_8), E(reduce_scatter_8),
          COLLECTIVE_ENDS);
INTERFACE(ncclCollNetPlugin_v9, E(init_8), E(devices), E(nccl_properties_9), E(collective_listen),
          E(collective_connect), COLLECTIVE_MEMORY, COLLECTIVE_WORK, COLLECTIVE_ENDS, 0);
INTERFACE(ncclCollNetPlugin_v10, E(init_8), E(devices), E(nccl_properties_9), E(collective_listen),
          E(collective_connect), COLLECTIVE_MEMORY, COLLECTIVE_WORK, COLLECTIVE_ENDS, 0);
INTERFACE(ncclCollNetPlugin_v11, E(collective_init_11), E(devices), E(nccl_properties_11), E(collective_listen_11),
          E(collective_connect), COLLECTIVE_MEMORY, COLLECTIVE_WORK, COLLECTIVE_ENDS, 0, E(finalize));
INTERFACE(ncclCollNetPlugin_v12, E(collective_init_11), E(devices), E(nccl_properties_12), E(collective_listen_11),
          E(collective_connect), COLLECTIVE_MEMORY, COLLECTIVE_WORK, COLLECTIVE_ENDS, 0, E(finalize));
