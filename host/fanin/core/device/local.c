/* A device on this host: messages over a UNIX socket, the control region in shared memory, an eventfd to wake it. */
#define _GNU_SOURCE
#include "complaint.h"
#include "device/access.h"
#include "device/layout.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* SO_SNDTIMEO bounds connect and send, if the device is stopped or its backlog is full. */
static enum fanin_status connect_socket(struct fanin_context *context, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = FANIN_REQUEST_TIMEOUT_MS / 1000};
    uint64_t deadline = fanin_now_ms() + FANIN_REQUEST_TIMEOUT_MS;
    int failed;

    if (strlen(path) >= sizeof address.sun_path)
        return FANIN_INVALID_REQUEST;
    strcpy(address.sun_path, path);
    context->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (context->socket < 0)
        return fanin_status_of_errno(errno);
    setsockopt(context->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    do /* with a time-out, signals interrupt it despite SA_RESTART */
        failed = connect(context->socket, (struct sockaddr *)&address, sizeof address) < 0;
    while (failed && errno == EINTR && fanin_now_ms() < deadline);
    return failed ? fanin_status_of_errno(errno) : FANIN_SUCCESS;
}

static enum fanin_status map_region(struct fanin_context *context, int memfd)
{
    struct stat file;
    void *region;

    if (fstat(memfd, &file) < 0 || (uint64_t)file.st_size < context->limits.region_bytes ||
        !fanin_rings_fit(&context->limits))
        return FANIN_VERSION_MISMATCH;
    region = mmap(NULL, context->limits.region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (region == MAP_FAILED)
        return fanin_status_of_errno(errno);
    context->region = region;
    return FANIN_SUCCESS;
}

/* Takes the eventfd out of `fds`, whose rest the caller closes. */
static enum fanin_status accept_attachment(struct fanin_context *context, size_t length, int fds[FANIN_MAX_FDS])
{
    enum fanin_status status;

    if (context->limits.head.version != FANIN_ABI_VERSION || length < sizeof context->limits)
        return FANIN_VERSION_MISMATCH;
    if (fds[0] < 0 || fds[1] < 0)
        return FANIN_VERSION_MISMATCH;
    status = map_region(context, fds[0]);
    if (status == FANIN_SUCCESS) {
        context->doorbell_fd = fds[1];
        fds[1] = -1;
    }
    return status;
}

static enum fanin_status attach(struct fanin_context *context)
{
    struct fanin_message message = {.type = FANIN_MSG_ATTACH};
    int memory, fds[FANIN_MAX_FDS] = {-1, -1};
    struct control_request request = {.reply = &context->limits, .capacity = sizeof context->limits, .fds = fds};
    enum fanin_status status;

    /* If this fails, the device refuses FANIN_LKEY_PROCESS; registered memory still works. */
    memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    status = fanin_control_call(context, &request, &message, sizeof message, memory);
    if (memory >= 0)
        close(memory);
    if (status == FANIN_NO_RESOURCES)
        fanin_complain("the device has no room for another client: it has too many, or its log names what it lacks "
                       "(if the limit of file sizes: start it without ulimit -f)");
    if (status == FANIN_SUCCESS)
        status = accept_attachment(context, request.length, fds);
    fanin_close_fds(fds);
    return status;
}

static void close_doorbell(struct fanin_context *context)
{
    if (context->doorbell_fd >= 0)
        close(context->doorbell_fd);
}

static enum fanin_status send_message(struct fanin_context *context, const void *message, size_t size, int fd)
{
    return fanin_send_message(context->socket, message, size, fd);
}

static ssize_t receive_message(struct fanin_context *context, void *buffer, size_t capacity, int fds[FANIN_MAX_FDS])
{
    return fanin_receive_message(context->socket, buffer, capacity, fds);
}

static void wake(struct fanin_context *context)
{
    uint64_t one = 1;

    /* A full eventfd already has a wake-up for the device. */
    if (write(context->doorbell_fd, &one, sizeof one) < 0)
        return;
}

static int is_broken(const struct fanin_context *context)
{
    (void)context;
    return 0;
}

/* The device writes by its own process: one that has ended writes nothing, and one that stands still is known. */
static int cut(struct fanin_context *context)
{
    (void)context;
    return 1;
}

/* The device empties the shared rings. */
static void begin_queue(struct fanin_context *context, uint32_t number)
{
    (void)context;
    (void)number;
}

/* The results come before the reply. */
static enum fanin_status await_results(struct fanin_context *context, uint32_t timeout_ms)
{
    (void)context;
    (void)timeout_ms;
    return FANIN_SUCCESS;
}

static enum fanin_status register_memory(struct fanin_context *context, struct fanin_register *message, int memfd)
{
    return fanin_exchange(context, FANIN_MSG_REGISTER, &message->head, sizeof *message, memfd);
}

static enum fanin_status deregister_memory(struct fanin_context *context, uint32_t lkey)
{
    struct fanin_register message = {.lkey = lkey};

    return fanin_exchange(context, FANIN_MSG_DEREGISTER, &message.head, sizeof message, -1);
}

const struct device_access fanin_local_access = {
    .connect = connect_socket,
    .attach = attach,
    .close = close_doorbell,
    .send = send_message,
    .receive = receive_message,
    .wake = wake,
    .is_broken = is_broken,
    .cut = cut,
    .begin_cq = begin_queue,
    .begin_qp = begin_queue,
    .await_results = await_results,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
};
