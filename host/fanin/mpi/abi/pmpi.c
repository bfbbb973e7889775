#include "abi/pmpi.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pmpi pmpi;

static const struct {
    const char *name;
    size_t place;
} symbols[] = {
#define ROW(name, ...) {"PMPI_" #name, offsetof(struct pmpi, name)},
    FUNCTIONS(ROW) CREATORS(ROW)
#define X(name, lower, TABLE, collective) ROW(name) ROW(I##lower) ROW(name##_init)
    COLLECTIVES(X)
#undef X
#define X(name, lower, TABLE, collective) ROW(name##_c) ROW(I##lower##_c) ROW(name##_init_c)
    COUNTED_COLLECTIVES(X)
#undef X
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int resolved; /* stored last: a thread that sees it sees the whole table */

static void resolve(void)
{
    if (!shim_identify_mpi()) {
        fprintf(stderr, "fanin: NOT_SUPPORTED: the program calls MPI functions, but of no MPI that is known; "
                        "run it without LD_PRELOAD\n");
        abort();
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = shim_symbol(symbols[i].name);
        memcpy((char *)&pmpi + symbols[i].place, &found, sizeof found);
    }
    __atomic_store_n(&resolved, 1, __ATOMIC_RELEASE);
}

void shim_bind(void)
{
    if (__builtin_expect(!__atomic_load_n(&resolved, __ATOMIC_ACQUIRE), 0))
        pthread_once(&once, resolve);
}
