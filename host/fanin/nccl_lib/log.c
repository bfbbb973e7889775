#include "log.h"
#include <stdarg.h>
#include <stdio.h>

#define MAX_LINE 1024

static nccl_logger logger_of_nccl;

void nccl_use_logger(nccl_logger logger)
{
    __atomic_store_n(&logger_of_nccl, logger, __ATOMIC_RELEASE);
}

void nccl_say(int level, const char *format, ...)
{
    nccl_logger logger = __atomic_load_n(&logger_of_nccl, __ATOMIC_ACQUIRE);
    char line[MAX_LINE];
    va_list arguments;

    if (!logger)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    logger(level, NCCL_LOG_INIT | NCCL_LOG_NET, "fanin", 0, "%s", line);
}

static int code_of(enum fanin_status status)
{
    switch (status) {
    case FANIN_SUCCESS:
        return NCCL_SUCCESS;
    case FANIN_PEER_LOST:
    case FANIN_PATH_MTU:
    case FANIN_ABORTED:
    case FANIN_TIMEOUT:
        return NCCL_REMOTE_ERROR;
    case FANIN_NO_DEVICE:
    case FANIN_DEVICE_LOST:
    case FANIN_NO_RESOURCES:
    case FANIN_PERMISSION_DENIED:
        return NCCL_SYSTEM_ERROR;
    case FANIN_OP_MISMATCH:
    case FANIN_MEMBERS_MISMATCH:
    case FANIN_NOT_SUPPORTED:
    case FANIN_INVALID_REQUEST:
        return NCCL_INVALID_USAGE;
    default:
        return NCCL_INTERNAL_ERROR;
    }
}

int nccl_failed(enum fanin_status status, const char *what, const char *words)
{
    const char *complaint = *words ? words : fanin_complaint();

    nccl_say(NCCL_LOG_WARN, "Fanin: %s: %s: %s%s%s %s", what, fanin_status_name(status), fanin_status_meaning(status),
             *complaint ? " " : "", complaint, fanin_status_remedy(status));
    return code_of(status);
}
