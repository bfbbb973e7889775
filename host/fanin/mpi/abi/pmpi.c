#define _GNU_SOURCE
#include "abi/pmpi.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pmpi pmpi, tools;

static const struct {
    const char *name;
    size_t place;
} symbols[] = {
#define ROW(name, ...) {"PMPI_" #name, offsetof(struct pmpi, name)}, /* + 1: the MPI_ name */
    FUNCTIONS(ROW) CREATORS(ROW)
#define X(name, lower, TABLE, collective) ROW(name) ROW(I##lower) ROW(name##_init)
    COLLECTIVES(X)
#undef X
#define X(name, lower, TABLE, collective) ROW(name##_c) ROW(I##lower##_c) ROW(name##_init_c)
    COUNTED_COLLECTIVES(X)
#undef X
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int resolved; /* stored last, with release */

/* The function of a library between the shim and the MPI, or NULL. */
static void *function_of_tool(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name), *own = shim_function(name);
    Dl_info of_next, of_mpi;

    if (!next || !own || next == own || !dladdr(next, &of_next) || !dladdr(own, &of_mpi))
        return NULL;
    return of_next.dli_fbase == of_mpi.dli_fbase ? NULL : next;
}

static void resolve(void)
{
    if (!shim_identify_mpi()) {
        fprintf(stderr, "fanin: NOT_SUPPORTED: the program calls functions of an unknown MPI; "
                        "run it without LD_PRELOAD\n");
        abort();
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = shim_function(symbols[i].name), *of_tool = function_of_tool(symbols[i].name + 1);
        memcpy((char *)&pmpi + symbols[i].place, &found, sizeof found);
        memcpy((char *)&tools + symbols[i].place, &of_tool, sizeof of_tool);
    }
    __atomic_store_n(&resolved, 1, __ATOMIC_RELEASE);
}

void shim_bind(void)
{
    if (__builtin_expect(!__atomic_load_n(&resolved, __ATOMIC_ACQUIRE), 0))
        pthread_once(&once, resolve);
}
