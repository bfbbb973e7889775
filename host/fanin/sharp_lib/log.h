/* What the library tells the user, on standard error. */
#ifndef FANIN_SHARP_LOG_H
#define FANIN_SHARP_LOG_H
#include "fanin.h"

enum { MAX_WORDS = 512 };

/* A line: "fanin: libsharp_coll: ...". */
void sharp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line that is only for those who set FANIN_SHARP_REPORT=1. */
void sharp_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A status that ended something, with its name, what it means and what to do; `what` says what has failed, `words` whom
 * it names, or "" for the complaint of the last call. Returns sharp_code_of. */
int sharp_failed(enum fanin_status status, const char *what, const char *words);

/* enum sharp_coll_error */
int sharp_code_of(enum fanin_status status);

/* Whom a failure names, in words for sharp_failed, of a communicator that joins or has joined. */
void sharp_name_members(const struct fanin_communicator *communicator, const struct fanin_cqe *failure,
                        char words[MAX_WORDS]);
#endif
