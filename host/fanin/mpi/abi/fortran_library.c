/* Finds the Fortran library of the MPI, also where a module of an interpreter has loaded it for itself. */
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

/* Where the library with mpi_wait_f08_ lies in memory. `end` is written last; 0: there is none so far. */
static struct {
    uintptr_t start, end;
    unsigned long long loads; /* of libraries, when it was last looked for */
    pthread_mutex_t lock;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first object knows how many there have been. */
static int count_loads(struct dl_phdr_info *object, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = object->dlpi_adds;
    return 1;
}

/* Remember the object if it holds mpi_wait_f08_. */
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

/* It may be loaded late: look again if anything has been. */
static void look(void)
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

int shim_waited_for_by_fortran(const void *caller)
{
    uintptr_t address = (uintptr_t)caller, end = __atomic_load_n(&library.end, __ATOMIC_ACQUIRE);

    if (!end) {
        look();
        end = __atomic_load_n(&library.end, __ATOMIC_ACQUIRE);
    }
    return end && address >= library.start && address < end;
}
