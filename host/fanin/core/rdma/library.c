#define _GNU_SOURCE
#include "rdma/library.h"
#include "complaint.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static const char *const names[] = {
    "ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name", "ibv_open_device", "ibv_close_device",
    "ibv_query_device", "ibv_query_port", "_ibv_query_gid_ex", "ibv_alloc_pd", "ibv_dealloc_pd", "ibv_reg_mr",
    "ibv_dereg_mr", "ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_create_cq", "ibv_destroy_cq",
    "ibv_get_cq_event", "ibv_ack_cq_events", "ibv_create_qp", "ibv_modify_qp", "ibv_destroy_qp",
};
enum { COUNT = sizeof names / sizeof *names };
_Static_assert(sizeof(struct rdma_library) == COUNT * sizeof(void *), "a name for each function");

static void *functions[COUNT];
static const char *missing; /* NULL: none is */

static void load(void)
{
    void *library = dlsym(RTLD_DEFAULT, names[0]) ? RTLD_DEFAULT : dlopen("libibverbs.so.1", RTLD_NOW);

    missing = library || dlsym(RTLD_DEFAULT, names[0]) ? NULL : "libibverbs.so.1";
    for (int i = 0; i < COUNT && !missing; i++)
        if (!(functions[i] = dlsym(library, names[i])))
            missing = names[i];
}

const struct rdma_library *fanin_rdma_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (missing) {
        fanin_complain("an address rdma:// needs libibverbs of rdma-core 32 or later, and %s is missing; "
                       "install it (Debian: libibverbs1 and ibverbs-providers)", missing);
        return NULL;
    }
    return (const void *)functions;
}
