#include "log.h"
#include <sharp/api/sharp_coll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE 1024

/* In one write: several ranks share a terminal. */
static void write_line(const char *format, va_list arguments)
{
    char line[MAX_LINE];

    vsnprintf(line, sizeof line, format, arguments);
    fprintf(stderr, "fanin: libsharp_coll: %s\n", line);
}

void sharp_say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void sharp_report(const char *format, ...)
{
    const char *wanted = getenv("FANIN_SHARP_REPORT");
    va_list arguments;

    if (!wanted || !strcmp(wanted, "") || !strcmp(wanted, "0"))
        return;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

int sharp_code_of(enum fanin_status status)
{
    switch (status) {
    case FANIN_SUCCESS:
        return SHARP_COLL_SUCCESS;
    case FANIN_NOT_SUPPORTED:
        return SHARP_COLL_ENOT_SUPP;
    case FANIN_INVALID_REQUEST:
        return SHARP_COLL_EINVAL;
    case FANIN_NO_DEVICE:
    case FANIN_NO_RESOURCES:
    case FANIN_PERMISSION_DENIED:
        return SHARP_COLL_ENO_RESOURCE;
    default:
        return SHARP_COLL_ERROR;
    }
}

int sharp_failed(enum fanin_status status, const char *what, const char *words)
{
    const char *complaint = *words ? words : fanin_complaint();

    sharp_say("%s: %s: %s%s%s %s", what, fanin_status_name(status), fanin_status_meaning(status),
              *complaint ? " " : "", complaint, fanin_status_remedy(status));
    return sharp_code_of(status);
}

void sharp_name_members(const struct fanin_communicator *communicator, const struct fanin_cqe *failure,
                        char words[MAX_WORDS])
{
    fanin_name_members(fanin_job_of(communicator), fanin_rank(communicator), failure, words, MAX_WORDS);
}

const char *sharp_coll_strerror(int error)
{
    switch (error) {
    case SHARP_COLL_SUCCESS:
        return "success";
    case SHARP_COLL_ERROR:
        return "a device, a rank or the job that they make up is lost";
    case SHARP_COLL_ENOT_SUPP:
        return "devices do not compute this";
    case SHARP_COLL_ENOMEM:
        return "there is not enough memory";
    case SHARP_COLL_EINVAL:
        return "an argument makes no sense";
    case SHARP_COLL_ENO_RESOURCE:
        return "there is no device for every rank, or it has no room for one more job";
    default:
        return "no error of this library";
    }
}
