/* Joining. Survivors of a job agree on the new one before they join it. */
#include "communicator/communicator.h"
#include "complaint.h"
#include "job/naming.h"

#define AWAIT_MS 5 /* between two looks at the other communicators */

enum fanin_status fanin_finish_join(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms)
{
    if (!communicator->agreement)
        return fanin_await_lease(communicator, reply, timeout_ms);
    fanin_forget_complaint();
    *reply = (struct fanin_join_reply){0};
    return fanin_agree(communicator, timeout_ms);
}

enum fanin_status fanin_abandon(struct fanin_communicator *communicator)
{
    fanin_end_agreement(communicator);
    return fanin_withdraw(communicator);
}

/* Put the members that a failed join names into fanin_complaint. */
static void complain_of(const struct fanin_communicator *communicator, enum fanin_status status,
                        const struct fanin_join_reply *reply)
{
    struct fanin_cqe members = {.status = (uint8_t)status, .missing = reply->missing,
                                .missing_kind = (uint8_t)reply->missing_kind,
                                .lost_device = fanin_names_device(status) ? reply->slots : 0};

    fanin_complain_of(&communicator->job, communicator->stream.job_params.rank, &members);
}

enum fanin_status fanin_await_join(struct fanin_communicator *communicator, uint32_t timeout_ms,
                                   struct fanin_communicator **joined)
{
    uint64_t deadline = fanin_now_ms() + timeout_ms;
    struct fanin_join_reply reply;
    enum fanin_status status;

    do {
        status = fanin_finish_join(communicator, &reply, AWAIT_MS);
        if (status == FANIN_PENDING)
            fanin_progress(); /* another rank may wait for a request that this one has not posted */
    } while (status == FANIN_PENDING && fanin_now_ms() < deadline);
    if (status != FANIN_SUCCESS && !*fanin_complaint())
        complain_of(communicator, status, &reply);
    if (status == FANIN_SUCCESS)
        *joined = communicator;
    else
        fanin_abandon(communicator);
    if (status == FANIN_INVALID_REQUEST && !*fanin_complaint())
        fanin_complain("the device refuses the description of the job, or that this rank joins it again");
    return status == FANIN_PENDING ? FANIN_TIMEOUT : status;
}

enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                             uint32_t timeout_ms, struct fanin_communicator **joined)
{
    struct fanin_communicator *communicator;
    enum fanin_status status = fanin_begin_join(context, job, rank, &communicator);

    return status == FANIN_SUCCESS ? fanin_await_join(communicator, timeout_ms, joined) : status;
}
