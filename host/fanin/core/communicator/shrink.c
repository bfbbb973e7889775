#include "communicator/communicator.h"
#include "complaint.h"

enum fanin_status fanin_begin_shrink(struct fanin_communicator *lost, uint32_t timeout_ms,
                                     struct fanin_communicator **made)
{
    struct fanin_communicator *communicator;
    enum fanin_status status = FANIN_NO_RESOURCES;

    fanin_forget_complaint();
    if (!lost->stream.context || !has_joined(lost))
        return fanin_complain("the device has been closed, or the job has not been joined");
    communicator = fanin_new_communicator(lost->stream.context);
    if (communicator)
        status = fanin_begin_agreement(communicator, lost, timeout_ms);
    if (status == FANIN_SUCCESS)
        *made = communicator;
    else if (communicator)
        fanin_abandon(communicator);
    return status;
}

enum fanin_status fanin_shrink(struct fanin_communicator *communicator, uint32_t timeout_ms,
                               struct fanin_communicator **made)
{
    struct fanin_communicator *begun;
    enum fanin_status status = fanin_begin_shrink(communicator, timeout_ms, &begun);

    return status == FANIN_SUCCESS ? fanin_await_join(begun, UINT32_MAX, made) : status;
}
