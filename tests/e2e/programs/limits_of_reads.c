/* Preloaded: a verbs device with fewer READs: a queue pair may have FANIN_TEST_READS_ASKED in flight, and answers
 * FANIN_TEST_READS_ANSWERED at once. The limits of each queue pair are appended to the file FANIN_TEST_READS_LOG,
 * "ASKED ANSWERED", when its state becomes RTS. */
#define _GNU_SOURCE
#include "fanin.h"
#include "ibv.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int limit_of(const char *name)
{
    const char *text = getenv(name);

    return text ? atoi(text) : 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    int (*of_library)(struct ibv_context *, struct ibv_device_attr *) = dlsym(RTLD_NEXT, __func__);
    int error = of_library(context, attr);

    attr->max_qp_init_rd_atom = limit_of("FANIN_TEST_READS_ASKED");
    attr->max_qp_rd_atom = limit_of("FANIN_TEST_READS_ANSWERED");
    return error;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int (*of_library)(struct ibv_qp *, struct ibv_qp_attr *, int) = dlsym(RTLD_NEXT, __func__);
    static int answered; /* of the only queue pair that is being connected */
    FILE *log;

    if (mask & FANIN_ATTR_MAX_DEST_RD_ATOMIC)
        answered = attr->max_dest_rd_atomic;
    if (mask & FANIN_ATTR_MAX_QP_RD_ATOMIC && (log = fopen(getenv("FANIN_TEST_READS_LOG"), "ae"))) {
        fprintf(log, "%d %d\n", attr->max_rd_atomic, answered);
        fclose(log);
    }
    return of_library(qp, attr, mask);
}
