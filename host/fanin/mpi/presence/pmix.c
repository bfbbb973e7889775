/* PMIx: the MPI calls PMIx_Commit in MPI_Init, before the barrier. The shim overrides this function to add a key. (An
 * earlier PMIx_Init would keep Open MPI 5 from learning which process it is.) An MPI with PMIx inside, under other
 * names, never calls it: then presence is unknown. */
#define _GNU_SOURCE
#include "presence/presence.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define KEY "fanin.shim"
#define TIMEOUT_S 2 /* for a missing key */

/* From pmix_common.h; unchanged since version 2. */
enum { PMIX_SUCCESS = 0, PMIX_ERROR = -1, PMIX_TIMEOUT = -24, PMIX_NOT_FOUND = -46, PMIX_NOT_SUPPORTED = -47 };
enum { PMIX_BOOL = 1, PMIX_INT = 6, PMIX_GLOBAL = 3 };

struct pmix_proc {
    char name_space[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        char flag;
        int number;
        uint64_t longest[4]; /* as long as in any version, hence no arrays of this structure */
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
static int is_to_say;                         /* MPI_Init of the shim was called */
static struct pmix_proc own;                  /* its name space, once the key is put */

static void *find_in(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);

    return library ? dlsym(library, name) : NULL;
}

/* A function of PMIx, as the library that contains `caller` sees it, which may be loaded with RTLD_LOCAL. */
static void *find(const char *name, void *caller)
{
    void *found = dlsym(RTLD_NEXT, name);
    Dl_info of_caller;

    if (!found && dladdr(caller, &of_caller))
        found = find_in(of_caller.dli_fname, name);
    return found ? found : find_in("libpmix.so.2", name);
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
    const char *name_space = getenv("PMIX_NAMESPACE");

    if (!pmix.Commit)
        bind_pmix(__builtin_return_address(0));
    if (!pmix.Commit)
        return PMIX_NOT_SUPPORTED; /* there is no PMIx but this function */
    if (is_to_say && pmix.Put && pmix.Get && name_space && pmix.Put(PMIX_GLOBAL, KEY, &yes) == PMIX_SUCCESS)
        snprintf(own.name_space, sizeof own.name_space, "%s", name_space);
    return pmix.Commit();
}

void shim_pmix_say_present(void)
{
    is_to_say = 1;
}

enum presence shim_pmix_presence_of(int rank)
{
    struct pmix_info timeout = {.key = "pmix.timeout", .value = {.type = PMIX_INT, .data = {.number = TIMEOUT_S}}};
    struct pmix_proc process = own;
    struct pmix_value *value = NULL;
    int status;

    if (!*own.name_space)
        return NOT_KNOWN;
    process.rank = (uint32_t)rank;
    status = pmix.Get(&process, KEY, &timeout, 1, &value);
    if (status == PMIX_SUCCESS)
        free(value);
    /* a server returns ERROR after a time-out for a rank of another node */
    if (status == PMIX_ERROR || status == PMIX_TIMEOUT || status == PMIX_NOT_FOUND)
        return ABSENT;
    return status == PMIX_SUCCESS ? PRESENT : NOT_KNOWN;
}
