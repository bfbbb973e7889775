/* PMIx: the MPI calls PMIx_Commit in MPI_Init, before the barrier. The shim has a function of this name, which comes
 * first, and adds a key of its own. (A PMIx_Init of the shim's own, before that of the MPI, is no way: Open MPI 5 then
 * does not learn which process it is.) An MPI that has PMIx inside, under other names, passes it by: not known. */
#define _GNU_SOURCE
#include "presence/presence.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define KEY "fanin.shim"
#define TIMEOUT_S 2 /* for a key that is not there */

/* From pmix_common.h, of which these parts are the same since version 2. */
enum { PMIX_SUCCESS = 0, PMIX_BOOL = 1, PMIX_INT = 6, PMIX_GLOBAL = 3 };

struct pmix_proc {
    char name_space[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        char flag;
        int number;
        uint64_t longest[4]; /* in some versions it is shorter: so no arrays of these */
    } data;
};

struct pmix_info {
    char key[512];
    uint32_t flags;
    struct pmix_value value;
};

static struct {
    int (*Commit)(void);
    int (*Put)(unsigned char scope, const char *key, struct pmix_value *value);
    int (*Get)(const struct pmix_proc *process, const char *key, const struct pmix_info *info, size_t infos,
               struct pmix_value **value);
} pmix;
static int has_said; /* that this rank has the shim */

/* A function of PMIx, as the library that contains `caller` sees it: it may have been loaded for itself alone. */
static void *find(const char *name, void *caller)
{
    void *found = dlsym(RTLD_NEXT, name), *library;
    Dl_info of_caller;

    if (found || !dladdr(caller, &of_caller))
        return found;
    library = dlopen(of_caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

static void bind_pmix(void *caller)
{
    void *commit = find("PMIx_Commit", caller), *put = find("PMIx_Put", caller), *get = find("PMIx_Get", caller);

    memcpy(&pmix.Put, &put, sizeof put);
    memcpy(&pmix.Get, &get, sizeof get);
    memcpy(&pmix.Commit, &commit, sizeof commit);
}

EXPORTED int PMIx_Commit(void)
{
    struct pmix_value yes = {.type = PMIX_BOOL, .data = {.flag = 1}};

    if (!pmix.Commit)
        bind_pmix(__builtin_return_address(0));
    if (!pmix.Commit)
        abort(); /* somebody has called it, so it is there */
    if (pmix.Put && pmix.Get && getenv("PMIX_NAMESPACE") && pmix.Put(PMIX_GLOBAL, KEY, &yes) == PMIX_SUCCESS)
        has_said = 1;
    return pmix.Commit();
}

enum presence shim_pmix_presence_of(int rank)
{
    struct pmix_info timeout = {.key = "pmix.timeout", .value = {.type = PMIX_INT, .data = {.number = TIMEOUT_S}}};
    struct pmix_proc process = {.rank = (uint32_t)rank};
    struct pmix_value *value = NULL;
    int status;

    if (!has_said)
        return NOT_KNOWN;
    strncpy(process.name_space, getenv("PMIX_NAMESPACE"), sizeof process.name_space - 1);
    status = pmix.Get(&process, KEY, &timeout, 1, &value);
    if (status == PMIX_SUCCESS)
        free(value);
    return status == PMIX_SUCCESS ? PRESENT : ABSENT;
}
