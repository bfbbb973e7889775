/* The control connection to a device over RDMA: TCP, each message after its length (4 bytes, little-endian). */
#define _GNU_SOURCE
#include "complaint.h"
#include "device/remote.h"
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/* As connect(), but a signal does not end it. */
static int connect_whatever_comes(int descriptor, const struct addrinfo *place)
{
    struct pollfd ready = {.fd = descriptor, .events = POLLOUT};
    uint64_t deadline = fanin_now_ms() + FANIN_REQUEST_TIMEOUT_MS;
    int error = 0;
    socklen_t length = sizeof error;

    if (connect(descriptor, place->ai_addr, place->ai_addrlen) == 0)
        return 0;
    if (errno != EINTR)
        return -1;
    while (poll(&ready, 1, FANIN_SLICE_MS) <= 0)
        if (fanin_now_ms() >= deadline) {
            errno = EINPROGRESS;
            return -1;
        }
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    return error ? -1 : 0;
}

/* Receives exactly `size` bytes; returns whether they came. */
static int receive_all(int descriptor, void *buffer, size_t size)
{
    size_t come = 0;

    while (come < size) {
        ssize_t more = recv(descriptor, (char *)buffer + come, size - come, MSG_WAITALL);

        if (more > 0)
            come += (size_t)more;
        else if (more == 0 || errno != EINTR)
            return 0;
    }
    return 1;
}

static enum fanin_status open_tcp(int *descriptor, const struct addrinfo *place)
{
    struct timeval limit = {.tv_sec = FANIN_REQUEST_TIMEOUT_MS / 1000};
    int one = 1;

    *descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*descriptor < 0)
        return fanin_status_of_errno(errno);
    setsockopt(*descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(*descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(*descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect_whatever_comes(*descriptor, place) == 0)
        return FANIN_SUCCESS;
    return errno == EINPROGRESS || errno == EHOSTUNREACH || errno == ENETUNREACH ? FANIN_NO_DEVICE
                                                                                 : fanin_status_of_errno(errno);
}

enum fanin_status fanin_tcp_connect(int *descriptor, const char *host, const char *port)
{
    struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    enum fanin_status status;

    if (getaddrinfo(host, port, &wanted, &found)) {
        fanin_complain("host %.200s is unknown; write rdma://ADDRESS:PORT", host);
        return FANIN_NO_DEVICE;
    }
    status = open_tcp(descriptor, found);
    freeaddrinfo(found);
    return status;
}

uint32_t fanin_tcp_own_address(int descriptor)
{
    struct sockaddr_in name = {0};
    socklen_t length = sizeof name;

    return getsockname(descriptor, (struct sockaddr *)&name, &length) ? 0 : ntohl(name.sin_addr.s_addr);
}

enum fanin_status fanin_tcp_send(int descriptor, const void *message, size_t size)
{
    uint32_t length = htole32((uint32_t)size);
    struct iovec parts[] = {{&length, sizeof length}, {(void *)message, size}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;

    do
        sent = sendmsg(descriptor, &header, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)(sizeof length + size))
        return FANIN_SUCCESS;
    if (sent < 0)
        return fanin_status_of_errno(errno);
    shutdown(descriptor, SHUT_RDWR); /* half a message has made the stream unreadable */
    return FANIN_DEVICE_LOST;
}

/* A device sends length and message at once, so the rest follows the length without delay. */
ssize_t fanin_tcp_receive(int descriptor, void *buffer, size_t capacity)
{
    uint32_t length;
    ssize_t seen = recv(descriptor, &length, sizeof length, MSG_PEEK | MSG_DONTWAIT);

    if (seen <= 0)
        return seen;
    if (seen < (ssize_t)sizeof length) {
        errno = EAGAIN;
        return -1;
    }
    length = le32toh(length);
    if (!receive_all(descriptor, &(uint32_t){0}, sizeof length) || length > capacity ||
        !receive_all(descriptor, buffer, length)) {
        errno = EPROTO;
        return -1;
    }
    return (ssize_t)length;
}
