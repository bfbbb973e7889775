/* One message, with the file descriptors it carries, over a UNIX SEQPACKET socket. */
#define _GNU_SOURCE
#include "device/connection.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum fanin_status fanin_status_of_errno(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENOTSOCK:
    case EPROTOTYPE:
    case ECONNREFUSED:
        return FANIN_NO_DEVICE;
    case EACCES:
    case EPERM:
        return FANIN_PERMISSION_DENIED;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return FANIN_DEVICE_LOST;
    case EAGAIN:
    case ETIMEDOUT:
        return FANIN_TIMEOUT;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EMSGSIZE:
        return FANIN_NO_RESOURCES;
    default:
        return FANIN_INVALID_REQUEST;
    }
}

enum fanin_status fanin_send_message(int socket, const void *message, size_t size, int fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {.iov_base = (void *)message, .iov_len = size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        header.msg_control = &control;
        header.msg_controllen = sizeof control.space;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? fanin_status_of_errno(errno) : FANIN_SUCCESS;
}

static void take_fds(struct cmsghdr *head, int fds[FANIN_MAX_FDS])
{
    size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        if (i < FANIN_MAX_FDS && fds[i] < 0)
            fds[i] = fd;
        else
            close(fd);
    }
}

ssize_t fanin_receive_message(int socket, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS])
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(FANIN_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = buffer, .iov_len = capacity};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    ssize_t received;

    for (int i = 0; i < FANIN_MAX_FDS; i++)
        fds[i] = -1;
    received = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0)
        return received;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&header); head; head = CMSG_NXTHDR(&header, head))
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
            take_fds(head, fds);
    return received;
}

void fanin_close_fds(const int fds[FANIN_MAX_FDS])
{
    for (int i = 0; i < FANIN_MAX_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}
