/* A connection carries messages one way, each after its length (8 bytes, host order). Nothing waits: requests advance,
 * in order, when NCCL tests them. The address is the NIC's, if this host has it (loopback), otherwise
 * FANIN_NCCL_ADDRESS. */
#define _GNU_SOURCE
#include "sockets.h"
#include "fanin.h"
#include "log.h"
#include "nics.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128
#define MAX_PENDING 16        /* when full, the oldest is dropped, so strangers can not fill it */
#define CONNECT_MS 10000
#define MAX_TEXT 64
static const char MAGIC[8] = "fanin-p";

/* Also the first bytes of a connection: a stranger does not know the nonce. */
struct greeting {
    char magic[8];
    uint64_t nonce;
    uint32_t address;         /* network order */
    uint16_t port, reserved;
};

/* NCCL passes the same memory to all calls for a connect, which keep their state here. */
struct handle {
    struct greeting greeting;
    int connecting;           /* 1 + the descriptor; 0: not begun */
    uint32_t begun_ms;
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle is too long");

struct listener {
    int descriptor;
    int pending[MAX_PENDING]; /* connections without a nonce yet; -1: none */
    uint64_t nonce;
};

struct request {
    struct connection *connection;
    int is_used;
    char *data;
    uint64_t room, length;    /* of the buffer; of the message, which its receiver reads from the stream */
    uint64_t moved;           /* bytes, including the 8 before the message */
};

struct connection {
    int descriptor, is_sender;
    uint32_t first, count;    /* of the ring of requests */
    struct request requests[NCCL_MAX_REQUESTS];
};

static int complain(const char *what)
{
    nccl_say(NCCL_LOG_WARN, "Fanin: %s: %s", what, strerror(errno));
    return NCCL_SYSTEM_ERROR;
}

static int own_address(int nic, struct in_addr *address)
{
    const char *named = getenv("FANIN_NCCL_ADDRESS");

    if (named && inet_pton(AF_INET, named, address) != 1) {
        nccl_say(NCCL_LOG_WARN, "Fanin: BAD_SETTING: FANIN_NCCL_ADDRESS is %s; write an IPv4 address of this host",
                 named);
        return NCCL_INVALID_USAGE;
    }
    if (!named) {
        struct fanin_context *context;
        enum fanin_status status = nccl_hold_nic(nic, &context);

        if (status != FANIN_SUCCESS)
            return nccl_failed(status, "the device of a connection", "");
        address->s_addr = htonl(fanin_limits(context)->address);
        nccl_release_nic(nic);
    }
    return NCCL_SUCCESS;
}

/* A listening socket; stores its port in `name`. */
static int open_listener(struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (descriptor >= 0 && !bind(descriptor, (struct sockaddr *)name, length) && !listen(descriptor, BACKLOG) &&
        !getsockname(descriptor, (struct sockaddr *)name, &length))
        return descriptor;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

int socket_listen(int nic, void *handle, void **made)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    struct handle own = {.connecting = 0};
    struct listener *listener;
    int result = own_address(nic, &name.sin_addr);

    if (result != NCCL_SUCCESS)
        return result;
    listener = malloc(sizeof *listener);
    if (!listener || getrandom(&own.greeting.nonce, sizeof own.greeting.nonce, 0) != sizeof own.greeting.nonce) {
        free(listener);
        return NCCL_SYSTEM_ERROR;
    }
    listener->descriptor = open_listener(&name);
    if (listener->descriptor < 0) {
        char text[MAX_TEXT] = "";

        inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
        nccl_say(NCCL_LOG_WARN, "Fanin: this host can not listen at %s (%s); name one of its addresses in "
                 "FANIN_NCCL_ADDRESS", text, strerror(errno));
        free(listener);
        return NCCL_SYSTEM_ERROR;
    }
    for (int i = 0; i < MAX_PENDING; i++)
        listener->pending[i] = -1;
    listener->nonce = own.greeting.nonce;
    memcpy(own.greeting.magic, MAGIC, sizeof MAGIC);
    own.greeting.address = name.sin_addr.s_addr;
    own.greeting.port = name.sin_port;
    memset(handle, 0, NCCL_HANDLE_BYTES);
    memcpy(handle, &own, sizeof own);
    *made = listener;
    return NCCL_SUCCESS;
}

int socket_close_listener(void *closed)
{
    struct listener *listener = closed;

    for (int i = 0; i < MAX_PENDING; i++)
        if (listener->pending[i] >= 0)
            close(listener->pending[i]);
    close(listener->descriptor);
    free(listener);
    return NCCL_SUCCESS;
}

static struct connection *new_connection(int descriptor, int is_sender)
{
    struct connection *made = calloc(1, sizeof *made);
    int yes = 1;

    if (!made)
        return NULL;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    made->descriptor = descriptor;
    made->is_sender = is_sender;
    for (int i = 0; i < NCCL_MAX_REQUESTS; i++)
        made->requests[i].connection = made;
    return made;
}

/* Begin to connect. Returns the descriptor, or -1. */
static int begin_connect(const struct greeting *other)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = other->port, .sin_addr.s_addr = other->address};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (descriptor >= 0 && connect(descriptor, (struct sockaddr *)&name, sizeof name) && errno != EINPROGRESS) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

/* 0: still connecting, 1: connected, -1: failed, with errno. */
static int connected(const struct handle *handle)
{
    struct pollfd ready = {.fd = handle->connecting - 1, .events = POLLOUT};
    int error = 0;
    socklen_t length = sizeof error;

    if (poll(&ready, 1, 0) == 0) {
        errno = ETIMEDOUT;
        return (uint32_t)fanin_now_ms() - handle->begun_ms > CONNECT_MS ? -1 : 0;
    }
    if (getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &length) || error) {
        errno = error;
        return -1;
    }
    return 1;
}

int socket_connect(int nic, void *opaque, void **made)
{
    struct handle *handle = opaque;
    int descriptor, state;

    (void)nic;
    *made = NULL;
    if (memcmp(handle->greeting.magic, MAGIC, sizeof MAGIC)) {
        nccl_say(NCCL_LOG_WARN, "Fanin: the other rank has a different network plugin; give all ranks the same "
                 "NCCL_NET_PLUGIN");
        return NCCL_INVALID_USAGE;
    }
    if (!handle->connecting) {
        handle->connecting = begin_connect(&handle->greeting) + 1;
        handle->begun_ms = (uint32_t)fanin_now_ms();
        if (!handle->connecting)
            return complain("connecting to another rank");
    }
    state = connected(handle);
    if (state == 0)
        return NCCL_SUCCESS;
    descriptor = handle->connecting - 1;
    handle->connecting = 0;
    /* A new connection has room for this. */
    if (state > 0 && send(descriptor, &handle->greeting, sizeof handle->greeting, MSG_NOSIGNAL) ==
                         (ssize_t)sizeof handle->greeting)
        *made = new_connection(descriptor, 1);
    if (*made)
        return NCCL_SUCCESS;
    complain("connecting to another rank");
    close(descriptor);
    return NCCL_REMOTE_ERROR;
}

static int take_pending(struct listener *listener)
{
    for (;;) {
        int descriptor = accept4(listener->descriptor, NULL, NULL, SOCK_CLOEXEC), place = 0;

        if (descriptor < 0)
            return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? NCCL_SUCCESS
                                                                               : complain("accepting a rank");
        while (place < MAX_PENDING && listener->pending[place] >= 0)
            place++;
        if (place == MAX_PENDING) {
            close(listener->pending[0]);
            memmove(listener->pending, listener->pending + 1, (MAX_PENDING - 1) * sizeof *listener->pending);
            place--;
        }
        listener->pending[place] = descriptor;
    }
}

/* Whether a connection has sent the nonce: 0: not yet, 1: yes, -1: a stranger. */
static int is_known(const struct listener *listener, int descriptor)
{
    struct greeting said;
    ssize_t length = recv(descriptor, &said, sizeof said, MSG_DONTWAIT | MSG_PEEK);

    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (length > 0 && length < (ssize_t)sizeof said)
        return 0;
    return length == (ssize_t)sizeof said && !memcmp(said.magic, MAGIC, sizeof MAGIC) &&
                   said.nonce == listener->nonce &&
                   recv(descriptor, &said, sizeof said, 0) == (ssize_t)sizeof said
               ? 1
               : -1;
}

int socket_accept(void *in, void **made)
{
    struct listener *listener = in;
    int result = take_pending(listener);

    *made = NULL;
    for (int i = 0; i < MAX_PENDING && result == NCCL_SUCCESS && !*made; i++) {
        int known = listener->pending[i] < 0 ? 0 : is_known(listener, listener->pending[i]);

        if (!known)
            continue;
        if (known > 0)
            *made = new_connection(listener->pending[i], 0);
        if (!*made)
            close(listener->pending[i]);
        listener->pending[i] = -1;
    }
    return result;
}

int socket_close(void *closed)
{
    struct connection *connection = closed;

    close(connection->descriptor);
    free(connection);
    return NCCL_SUCCESS;
}

static int enqueue(struct connection *connection, void *data, size_t room, size_t length, void **made)
{
    struct request *request = &connection->requests[(connection->first + connection->count) % NCCL_MAX_REQUESTS];

    *made = NULL;
    if (request->is_used)     /* try again */
        return NCCL_SUCCESS;
    request->is_used = 1;
    request->data = data;
    request->room = room;
    request->length = length;
    request->moved = 0;
    connection->count++;
    *made = request;
    return NCCL_SUCCESS;
}

int socket_send(void *connection, void *data, size_t bytes, void **request)
{
    return enqueue(connection, data, bytes, bytes, request);
}

int socket_receive(void *connection, void *data, size_t bytes, void **request)
{
    return enqueue(connection, data, bytes, 0, request);
}

static int is_ended(const struct request *request)
{
    return request->moved >= sizeof request->length && request->moved == sizeof request->length + request->length;
}

/* Send or receive a piece as far as possible. Returns the bytes; 0: none now, -1: end of stream. */
static ssize_t move(struct connection *connection, char *data, size_t bytes)
{
    ssize_t moved = connection->is_sender ? send(connection->descriptor, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                                          : recv(connection->descriptor, data, bytes, MSG_DONTWAIT);

    if (moved > 0)
        return moved;
    if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (moved == 0)
        errno = ECONNRESET;
    return -1;
}

static int advance(struct request *request)
{
    while (!is_ended(request)) {
        uint64_t at = request->moved, head = sizeof request->length;
        ssize_t moved = at < head ? move(request->connection, (char *)&request->length + at, head - at)
                                  : move(request->connection, request->data + at - head, request->length + head - at);

        if (moved < 0) {
            complain("the connection to another rank");
            return NCCL_REMOTE_ERROR;
        }
        if (moved == 0)
            return NCCL_SUCCESS;
        request->moved += (uint64_t)moved;
        if (request->moved >= head && request->length > request->room) {
            nccl_say(NCCL_LOG_WARN, "Fanin: a message of %llu bytes has come where %llu were asked for",
                     (unsigned long long)request->length, (unsigned long long)request->room);
            return NCCL_INVALID_USAGE;
        }
    }
    return NCCL_SUCCESS;
}

int socket_test(void *tested, int *done, int *bytes)
{
    struct request *request = tested;
    struct connection *connection = request->connection;

    *done = 0;
    while (connection->count && !is_ended(request)) {
        struct request *first = &connection->requests[connection->first];
        int result = advance(first);

        if (result != NCCL_SUCCESS)
            return result;
        if (!is_ended(first))
            return NCCL_SUCCESS;
        connection->first = (connection->first + 1) % NCCL_MAX_REQUESTS;
        connection->count--;
    }
    *done = 1;
    if (bytes)
        *bytes = (int)request->length;
    request->is_used = 0;
    return NCCL_SUCCESS;
}
