/* The functions by which fanin.verbs posts collectives on objects that the program has made with pyverbs, named by
 * their handles and keys. cffi reads this file. */
#ifndef FANIN_VERBS_H
#define FANIN_VERBS_H
#include "fanin.h"

/* Functions of fanin.h in this library's driver, which know its contexts. */
struct fanin_verbs_calls {
    enum fanin_status (*fanin_join_qp)(struct fanin_context *context, const struct fanin_join *join,
                                       struct fanin_membership_request **request);
    enum fanin_status (*fanin_leave_qp)(struct fanin_context *context, uint32_t qp,
                                        struct fanin_membership_request **request);
    enum fanin_status (*fanin_await_membership)(struct fanin_membership_request *request,
                                                struct fanin_join_reply *reply, uint32_t timeout_ms);
    void (*fanin_forget_membership)(struct fanin_membership_request *request);
    enum fanin_status (*fanin_post)(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe);
    enum fanin_status (*fanin_post_next)(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                                         const struct fanin_wqe *wqe);
};

/* A send queue of collectives; its completions go into a completion queue of verbs. */
struct fanin_verbs_qp {
    const struct fanin_verbs_calls *calls;
    struct fanin_context *context;
    uint32_t number;
    uint32_t reserved;
};

/* Create one; until it is destroyed, domain, queue and context can not be freed. `version`: FANIN_ABI_VERSION of the
 * caller. FANIN_INVALID_REQUEST: no such protection domain or completion queue of a Fanin device, or of two
 * contexts. */
enum fanin_status fanin_verbs_create_qp(uint32_t version, uint32_t pd, uint32_t cq, struct fanin_verbs_qp **qp);
enum fanin_status fanin_verbs_destroy_qp(struct fanin_verbs_qp *qp);

/* Replace the keys of ibv_reg_mr in a request for one rank by that of process memory, since the device reaches such
 * regions by system calls. FANIN_LOCAL_PROTECTION_ERROR: no such region, the data are not in it, or it may not be
 * written. FANIN_NOT_SUPPORTED: the request is for several ranks. */
enum fanin_status fanin_verbs_localize(const struct fanin_verbs_qp *qp, struct fanin_wqe *wqe);

/* The last polled completion, in full; all 0: none. */
void fanin_verbs_last_completion(const struct fanin_verbs_qp *qp, struct fanin_cqe *cqe);

#endif
