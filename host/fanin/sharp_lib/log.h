/* Messages on standard error. */
#ifndef FANIN_SHARP_LOG_H
#define FANIN_SHARP_LOG_H
#include "fanin.h"

enum { MAX_WORDS = 512 };

void sharp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line that is printed only with FANIN_SHARP_REPORT=1. */
void sharp_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Report that `what` has failed with `status`, its meaning and remedy, and `words` about the members, or, if "", the
 * complaint of the last call. Returns sharp_code_of. */
int sharp_failed(enum fanin_status status, const char *what, const char *words);

/* enum sharp_coll_error */
int sharp_code_of(enum fanin_status status);

/* The members that a failure of a communicator names, in words for sharp_failed. */
void sharp_name_members(const struct fanin_communicator *communicator, const struct fanin_cqe *failure,
                        char words[MAX_WORDS]);
#endif
