/* RTLD_NEXT would miss the libibverbs of a Python module, which has its own scope. */
#define _GNU_SOURCE
#include "abi/next.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

void *our_find_next(const char *name, const char *version)
{
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD), *found;

    if (!library)
        return NULL;
    found = dlvsym(library, name, version);
    dlclose(library); /* the program keeps it loaded */
    return found;
}

void *our_next(const char *name, const char *version)
{
    void *found = our_find_next(name, version);

    if (!found) {
        fprintf(stderr, "fanin: NOT_SUPPORTED: the loaded libibverbs has no %s of %s; run the program without "
                        "LD_PRELOAD\n", name, version);
        abort();
    }
    return found;
}
