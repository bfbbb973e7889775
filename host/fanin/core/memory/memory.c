#define _GNU_SOURCE
#include "complaint.h"
#include "device/access.h"
#include "memory/regions.h"
#include "memory/rights.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Rights to change memory. Without any the device may still read it, as other verbs devices do. */
#define CHANGES (FANIN_ACCESS_WRITE | FANIN_ACCESS_REMOTE_WRITE | FANIN_ACCESS_REMOTE_ATOMIC)

static enum fanin_status register_memory(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                         uint64_t length, uint32_t access, uint32_t domain, uint32_t *lkey)
{
    struct fanin_register message = {
        .address = (uintptr_t)address, .length = length, .offset = offset, .access = access, .domain = domain};
    enum fanin_status status = context->access->register_memory(context, &message, memfd);

    if (status == FANIN_INVALID_REQUEST)
        fanin_complain("the device refused the access rights, the length or the memfd of the memory");
    if (status != FANIN_SUCCESS)
        return status;
    if (memfd >= 0 && !fanin_enter_region(context, address, length, message.lkey)) {
        fanin_deregister(context, message.lkey);
        return FANIN_NO_RESOURCES;
    }
    *lkey = message.lkey;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_register(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                 uint64_t length, uint32_t access, uint32_t *lkey)
{
    return register_memory(context, memfd, offset, address, length, access, 0, lkey);
}

enum fanin_status fanin_register_ordinary(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                          uint64_t length, uint32_t access, uint32_t domain, uint32_t *key)
{
    enum fanin_status status = FANIN_SUCCESS;

    fanin_forget_complaint();
    if (memfd < 0)
        status = fanin_check_rights(address, length, (access & CHANGES) != 0);
    if (status != FANIN_SUCCESS)
        return status;
    return register_memory(context, memfd, offset, address, length, access | FANIN_ACCESS_ORDINARY, domain, key);
}

enum fanin_status fanin_deregister(struct fanin_context *context, uint32_t lkey)
{
    enum fanin_status status;

    fanin_erase_region(context, lkey);
    status = context->access->deregister_memory(context, lkey);
    if (status == FANIN_INVALID_REQUEST)
        fanin_complain("the device has no region with the lkey %#x", lkey);
    return status;
}

/* Whether a limit forbids files of this length, which would raise SIGXFSZ. */
static int exceeds_file_limit(uint64_t length)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && length > limit.rlim_cur;
}

/* Sealed, so that this process can not make the device fault by truncating the file. */
static int sealed_memfd(uint64_t length)
{
    int memfd = memfd_create("fanin-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (memfd < 0)
        return -1;
    if (ftruncate(memfd, (off_t)length) == 0 && fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return memfd;
    close(memfd);
    return -1;
}

static enum fanin_status allocate(struct fanin_context *context, uint64_t length, uint32_t access, uint32_t domain,
                                  void **address, uint32_t *lkey, int *memfd)
{
    enum fanin_status status;
    void *memory;
    int file;

    if (!length)
        return fanin_complain("the length of the memory is 0 bytes");
    fanin_forget_complaint();
    if (exceeds_file_limit(length)) {
        fanin_complain("the limit of file sizes (ulimit -f) is below %llu bytes, and holds for registered memory, too",
                       (unsigned long long)length);
        return FANIN_NO_RESOURCES;
    }
    file = sealed_memfd(length);
    if (file < 0)
        return fanin_status_of_errno(errno);
    memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    status = memory == MAP_FAILED ? fanin_status_of_errno(errno)
                                  : register_memory(context, file, 0, memory, length, access, domain, lkey);
    if (status == FANIN_SUCCESS) {
        *address = memory;
        *memfd = file;
        return FANIN_SUCCESS;
    }
    if (memory != MAP_FAILED)
        munmap(memory, length);
    close(file);
    return status;
}

enum fanin_status fanin_allocate_shared(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                        uint32_t *lkey, int *memfd)
{
    return allocate(context, length, access, 0, address, lkey, memfd);
}

enum fanin_status fanin_allocate_ordinary(struct fanin_context *context, uint64_t length, uint32_t access,
                                          uint32_t domain, void **address, uint32_t *key)
{
    int memfd;
    enum fanin_status status = allocate(context, length, access | FANIN_ACCESS_ORDINARY, domain, address, key, &memfd);

    if (status == FANIN_SUCCESS)
        close(memfd);
    return status;
}

enum fanin_status fanin_allocate(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                 uint32_t *lkey)
{
    int memfd;
    enum fanin_status status = fanin_allocate_shared(context, length, access, address, lkey, &memfd);

    if (status == FANIN_SUCCESS)
        close(memfd);
    return status;
}

void fanin_unmap(void *address, uint64_t length)
{
    munmap(address, length);
}
