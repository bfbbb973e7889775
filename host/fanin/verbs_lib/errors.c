#include "objects.h"
#include <errno.h>

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
    {FANIN_LOCAL_PROTECTION_ERROR, EPERM}, /* this process can not pass its memory to the device */
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
