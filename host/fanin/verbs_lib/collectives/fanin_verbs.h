/* What fanin.verbs asks of the verbs library that its process was started with, to post collectives on objects that the
 * program has made with pyverbs. Those are named by what pyverbs shows: handles and keys.
 *
 * cffi reads the declarations of this file.
 */
#ifndef FANIN_VERBS_H
#define FANIN_VERBS_H
#include "fanin.h"

/* Functions of fanin.h, of the driver that is in this library: they know its contexts. */
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

/* A send queue of collectives. Its completions go into the completion queue of verbs that it was made with. */
struct fanin_verbs_qp {
    const struct fanin_verbs_calls *calls;
    struct fanin_context *context;
    uint32_t number;
    uint32_t reserved;
};

/* Make one. `version` is FANIN_ABI_VERSION of the caller. FANIN_INVALID_REQUEST: there is no such protection domain or
 * completion queue of a Fanin device, or they are of two contexts. While it is there, neither they nor their context
 * can be given back. */
enum fanin_status fanin_verbs_create_qp(uint32_t version, uint32_t pd, uint32_t cq, struct fanin_verbs_qp **qp);
enum fanin_status fanin_verbs_destroy_qp(struct fanin_verbs_qp *qp);

/* In a request for one rank: let the key of process memory take the place of keys of regions that ibv_reg_mr has made,
 * which the device reaches by system calls. FANIN_LOCAL_PROTECTION_ERROR: there is no such region, or what the rank
 * brings or wants is not in it, or the region may not be written. FANIN_NOT_SUPPORTED: it is for several ranks. */
enum fanin_status fanin_verbs_localize(const struct fanin_verbs_qp *qp, struct fanin_wqe *wqe);

/* The last completion that was polled: more than a completion of verbs can say. All 0: there was none. */
void fanin_verbs_last_completion(const struct fanin_verbs_qp *qp, struct fanin_cqe *cqe);

#endif
