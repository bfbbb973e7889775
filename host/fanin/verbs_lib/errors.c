#include "objects.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    enum fanin_status status;
    int error;
} rows[] = {
    {FANIN_SUCCESS, 0},
    {FANIN_INVALID_REQUEST, EINVAL},
    {FANIN_NO_RESOURCES, ENOMEM},
    {FANIN_QUEUE_FULL, ENOMEM},
    {FANIN_NOT_SUPPORTED, EOPNOTSUPP},
    {FANIN_PERMISSION_DENIED, EACCES},
    {FANIN_LOCAL_PROTECTION_ERROR, EPERM}, /* the device can not access this process's memory */
    {FANIN_NO_DEVICE, ENODEV},
    {FANIN_VERSION_MISMATCH, EPROTONOSUPPORT},
    {FANIN_TIMEOUT, ETIMEDOUT},
};

int our_errno(enum fanin_status status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status)
            return rows[i].error;
    return EIO;
}

void our_say(const char *format, ...)
{
    static uint32_t is_said; /* once: programs may retry with shorter queues */
    char text[256];
    va_list arguments;

    if (getenv("FANIN_VERBS_QUIET") || __atomic_exchange_n(&is_said, 1, __ATOMIC_RELAXED))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "fanin: %s\n", text);
}

void *our_null(int error)
{
    errno = error;
    return NULL;
}

int our_minus_one(int error)
{
    errno = error;
    return -1;
}
