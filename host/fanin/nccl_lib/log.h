/* What the plugin tells the user, by NCCL's own log (NCCL_DEBUG). */
#ifndef FANIN_NCCL_LOG_H
#define FANIN_NCCL_LOG_H
#include "fanin.h"
#include "nccl_abi.h"

/* NCCL gives its logger with each initialization. */
void nccl_use_logger(nccl_logger logger);

/* A line of `level`, enum nccl_log_level. */
void nccl_say(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A status that ended something, with its name, what it means and what to do; `what` says what has failed, `words` whom
 * it names, or "". Returns NCCL's code for it. */
int nccl_failed(enum fanin_status status, const char *what, const char *words);
#endif
