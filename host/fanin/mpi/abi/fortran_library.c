/* The Fortran library may be hidden from dlsym: an interpreter loads it for a module only. */
#define _GNU_SOURCE
#include "abi/fortran_library.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const libraries[] = {"libmpi_mpifh.so.40", "libmpi_usempif08.so.40", "libmpifort.so.12",
                                        "libmpichfort.so.12"};

static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !found; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        found = library ? dlsym(library, name) : NULL;
    }
    return found;
}

void *shim_fortran_entry(void **known, const char *name)
{
    void *found = __atomic_load_n(known, __ATOMIC_ACQUIRE);

    if (found)
        return found;
    found = find(name);
    if (!found) {
        fprintf(stderr, "fanin: NOT_SUPPORTED: the program calls %s, but of no Fortran library that is known; "
                        "run it without LD_PRELOAD\n", name);
        abort();
    }
    __atomic_store_n(known, found, __ATOMIC_RELEASE);
    return found;
}

/* The addresses of the library that has mpi_wait_f08_. `end` is written last; 0: it is not loaded yet. */
static struct {
    uintptr_t start, end;
    unsigned long long loads; /* how many libraries had been loaded at the last search */
    pthread_mutex_t lock;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* For dl_iterate_phdr: each object tells how many libraries have been loaded, so the first is enough. */
static int count_loads(struct dl_phdr_info *object, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = object->dlpi_adds;
    return 1;
}

/* For dl_iterate_phdr: note the addresses of the object that holds mpi_wait_f08_. */
static int note_object(struct dl_phdr_info *object, size_t size, void *wait)
{
    uintptr_t start = UINTPTR_MAX, end = 0;

    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t address = object->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        start = address < start ? address : start;
        end = address + part->p_memsz > end ? address + part->p_memsz : end;
    }
    if ((uintptr_t)wait < start || (uintptr_t)wait >= end)
        return 0;
    library.start = start;
    __atomic_store_n(&library.end, end, __ATOMIC_RELEASE);
    return 1;
}

/* It may be loaded late: search again if a library has been loaded meanwhile. */
static void search(void)
{
    unsigned long long loads;

    dl_iterate_phdr(count_loads, &loads);
    pthread_mutex_lock(&library.lock);
    if (loads != library.loads && !library.end) {
        void *wait = find("mpi_wait_f08_");
        if (wait)
            dl_iterate_phdr(note_object, wait);
        library.loads = loads;
    }
    pthread_mutex_unlock(&library.lock);
}

int shim_is_called_by_f08(const void *caller)
{
    uintptr_t address = (uintptr_t)caller, end = __atomic_load_n(&library.end, __ATOMIC_ACQUIRE);

    if (!end) {
        search();
        end = __atomic_load_n(&library.end, __ATOMIC_ACQUIRE);
    }
    return end && address >= library.start && address < end;
}
