#include "abi/next.h"
#include "objects.h"
#include <errno.h>
#include <stdlib.h>

enum {
    DOMAINS = 1 << 16,
    RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
};

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct our_pd *pd;

    if (!our_context_is(context))
        return NEXT(ibv_alloc_pd, "IBVERBS_1.1")(context);
    pd = calloc(1, sizeof *pd);
    if (!pd)
        return our_null(ENOMEM);
    pd->domain = __atomic_add_fetch(&our_context(context)->domains, 1, __ATOMIC_RELAXED) % DOMAINS;
    pd->base = (struct ibv_pd){.context = context, .handle = our_new_number()};
    our_know(OUR_PDS, &pd->known, pd->base.handle);
    return &pd->base;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    if (!our_context_is(pd->context))
        return NEXT(ibv_dealloc_pd, "IBVERBS_1.1")(pd);
    if (our_in_use(&our_pd(pd)->users))
        return EBUSY;
    our_unknow(OUR_PDS, &our_pd(pd)->known);
    free(our_pd(pd));
    return 0;
}

/* With a complaint, the rights to the memory are missing; without one, the device can not access the process's
 * memory. */
static int error_of(enum fanin_status status)
{
    return status == FANIN_LOCAL_PROTECTION_ERROR && *fanin_complaint() ? EFAULT : our_errno(status);
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, void *address, size_t length, unsigned int access)
{
    struct our_mr *mr;
    uint32_t key;
    enum fanin_status status;

    access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
    if (access & ~(unsigned int)RIGHTS)
        return our_null(EOPNOTSUPP);
    if (our_is_inherited(pd->context))
        return our_null(EIO);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return our_null(ENOMEM);
    status = fanin_register_ordinary(our_fanin(pd->context), -1, 0, address, length, access | FANIN_ACCESS_READ,
                                     our_pd(pd)->domain, &key);
    if (status != FANIN_SUCCESS) {
        free(mr);
        return our_null(error_of(status));
    }
    our_use(&our_pd(pd)->users);
    mr->base = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = length, .handle = key,
                               .lkey = key, .rkey = key};
    mr->access = access;
    our_know(OUR_MRS, &mr->known, key);
    return &mr->base;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    if (!our_context_is(pd->context))
        return NEXT(ibv_reg_mr, "IBVERBS_1.1")(pd, address, length, access);
    return register_memory(pd, address, length, (unsigned int)access);
}

/* The other side uses addresses of this process. */
static struct ibv_mr *register_at(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned int access)
{
    return iova == (uintptr_t)address ? register_memory(pd, address, length, access) : our_null(EOPNOTSUPP);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access)
{
    if (!our_context_is(pd->context))
        return NEXT(ibv_reg_mr_iova, "IBVERBS_1.7")(pd, address, length, iova, access);
    return register_at(pd, address, length, iova, (unsigned int)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                       unsigned int access)
{
    if (!our_context_is(pd->context))
        return NEXT(ibv_reg_mr_iova2, "IBVERBS_1.8")(pd, address, length, iova, access);
    return register_at(pd, address, length, iova, access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    int error;

    if (!our_context_is(mr->context))
        return NEXT(ibv_dereg_mr, "IBVERBS_1.1")(mr);
    error = our_end_at_device(mr->context, fanin_deregister, mr->lkey);
    if (error)
        return error;
    our_unknow(OUR_MRS, &((struct our_mr *)mr)->known);
    our_release(&our_pd(mr->pd)->users);
    free(mr);
    return 0;
}
