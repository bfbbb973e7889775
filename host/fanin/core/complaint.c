#include "complaint.h"
#include "fanin.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char complaint[240];

void fanin_complain(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(complaint, sizeof complaint, format, arguments);
    va_end(arguments);
}

const char *fanin_complaint(void)
{
    return complaint;
}
