#define _GNU_SOURCE
#include "device/connection.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum fanin_status fanin_status_of_errno(int error)
{
    static const uint8_t statuses[] = {
        [ENOENT] = FANIN_NO_DEVICE,         [ENOTDIR] = FANIN_NO_DEVICE,        [ENOTSOCK] = FANIN_NO_DEVICE,
        [EPROTOTYPE] = FANIN_NO_DEVICE,     [ECONNREFUSED] = FANIN_NO_DEVICE,
        [EACCES] = FANIN_PERMISSION_DENIED, [EPERM] = FANIN_PERMISSION_DENIED,
        [EPIPE] = FANIN_DEVICE_LOST,        [ECONNRESET] = FANIN_DEVICE_LOST,   [ENOTCONN] = FANIN_DEVICE_LOST,
        [EAGAIN] = FANIN_TIMEOUT,           [ETIMEDOUT] = FANIN_TIMEOUT,
        [ENOMEM] = FANIN_NO_RESOURCES,      [ENOBUFS] = FANIN_NO_RESOURCES,     [EMFILE] = FANIN_NO_RESOURCES,
        [ENFILE] = FANIN_NO_RESOURCES,      [ENOSPC] = FANIN_NO_RESOURCES,      [EMSGSIZE] = FANIN_NO_RESOURCES,
    };

    return (size_t)error < sizeof statuses && statuses[error] ? statuses[error] : FANIN_INVALID_REQUEST;
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

ssize_t fanin_receive_message(int socket, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS])
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(FANIN_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = buffer, .iov_len = capacity};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    struct cmsghdr *head;
    ssize_t received;

    for (int i = 0; i < FANIN_MAX_FDS; i++)
        fds[i] = -1;
    received = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    head = received < 0 ? NULL : CMSG_FIRSTHDR(&header);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0)); /* bounded by the size of `control` */
    return received;
}

void fanin_close_fds(const int fds[FANIN_MAX_FDS])
{
    for (int i = 0; i < FANIN_MAX_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}
