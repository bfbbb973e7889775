/* What the library tells the user, on standard error. */
#ifndef FANIN_SHARP_LOG_H
#define FANIN_SHARP_LOG_H
#include "fanin.h"

/* A line: "fanin: libsharp_coll: ...". */
void sharp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line that is only for those who set FANIN_SHARP_REPORT=1. */
void sharp_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A status that ended something, with its name, what it means and what to do; `what` says what has failed, `words` whom
 * it names, or "" for the complaint of the last call. Returns enum sharp_coll_error. */
int sharp_failed(enum fanin_status status, const char *what, const char *words);
#endif
