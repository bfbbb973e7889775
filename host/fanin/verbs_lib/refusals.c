/* Functions that these devices lack. Those in the context's table are NULL there, so verbs' inline functions return
 * EOPNOTSUPP. */
#include "abi/next.h"
#include "objects.h"
#include <errno.h>
#include <stddef.h>

struct ibv_dm;
struct ibv_ece;

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                        int access)
{
    if (!our_context_is(pd->context))
        return NEXT(ibv_reg_dmabuf_mr, "IBVERBS_1.12")(pd, offset, length, iova, fd, access);
    return our_null(EOPNOTSUPP);
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length, int access)
{
    if (!our_context_is(mr->context))
        return NEXT(ibv_rereg_mr, "IBVERBS_1.1")(mr, flags, pd, address, length, access);
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    if (!our_context_is(qp->context))
        return NEXT(ibv_attach_mcast, "IBVERBS_1.1")(qp, gid, lid);
    return EOPNOTSUPP;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    if (!our_context_is(qp->context))
        return NEXT(ibv_detach_mcast, "IBVERBS_1.1")(qp, gid, lid);
    return EOPNOTSUPP;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    if (!our_context_is(qp->context))
        return NEXT(ibv_set_ece, "IBVERBS_1.10")(qp, ece);
    return EOPNOTSUPP;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    if (!our_context_is(qp->context))
        return NEXT(ibv_query_ece, "IBVERBS_1.10")(qp, ece);
    return EOPNOTSUPP;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    if (!our_context_is(context))
        return NEXT(ibv_import_pd, "IBVERBS_1.10")(context, handle);
    return our_null(EOPNOTSUPP);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    if (!our_context_is(pd->context))
        return NEXT(ibv_import_mr, "IBVERBS_1.10")(pd, handle);
    return our_null(EOPNOTSUPP);
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    if (!our_context_is(context))
        return NEXT(ibv_import_dm, "IBVERBS_1.13")(context, handle);
    return our_null(EOPNOTSUPP);
}
