/* Messages, in NCCL's log (NCCL_DEBUG). */
#ifndef FANIN_NCCL_LOG_H
#define FANIN_NCCL_LOG_H
#include "fanin.h"
#include "nccl_abi.h"

/* NCCL passes its logger to each initialization. */
void nccl_use_logger(nccl_logger logger);

/* A line of `level`, enum nccl_log_level. */
void nccl_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Log that `what` has failed with `status`, its meaning and remedy, and `words` about the members, or "". Returns
 * NCCL's code. */
int nccl_failed(enum fanin_status status, const char *what, const char *words);
#endif
