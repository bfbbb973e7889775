#include "complaint.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char complaint[240];

enum fanin_status fanin_complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(complaint, sizeof complaint, format, arguments);
    va_end(arguments);
    return FANIN_INVALID_REQUEST;
}

void fanin_forget_complaint(void)
{
    complaint[0] = 0;
}

const char *fanin_complaint(void)
{
    return complaint;
}
