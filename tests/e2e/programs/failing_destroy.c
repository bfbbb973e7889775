/* Preloaded in a rank: no queue pair can be destroyed, nor, with FANIN_TEST_KEEPS_MEMORY, memory deregistered. */
#define _GNU_SOURCE
#include "fanin.h"
#include "ibv.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

int ibv_destroy_qp(struct ibv_qp *qp)
{
    (void)qp;
    return EIO;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    int (*of_library)(struct ibv_mr *) = dlsym(RTLD_NEXT, __func__);

    return getenv("FANIN_TEST_KEEPS_MEMORY") ? EIO : of_library(mr);
}
