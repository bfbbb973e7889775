/* Joining a job together: all ranks of a communicator do it, or none does. */
#ifndef FANIN_MPI_JOINING_H
#define FANIN_MPI_JOINING_H
#include "communicator.h"
#include "fanin.h"

/* A JOIN of this rank under way. */
struct joining {
    struct fanin_join join;
    struct fanin_join_reply reply;
    struct fanin_request *request;
    enum fanin_status status;  /* PENDING while the device has not answered */
};

/* Ask this rank's device. `joining` is zeroed before. Where the job makes no sense, `complaint` says why. */
void fanin_begin_joining(struct member *member, const struct description *job, uint32_t rank, struct joining *joining,
                         char *complaint);

/* A device answers when all ranks have asked, so one that is refused would be waited for by the others: in rounds they
 * exchange how it stands, until all have joined or one never will. Returns an error of the MPI. */
int fanin_await_all(struct joining *joining, const struct communicator *communicator, uint32_t *statuses);

void fanin_end_joining(struct member *member, struct joining *joining, uint32_t rank);

/* MPI_Allgather of a record of each rank. */
int fanin_tell_all(const void *mine, void *all, size_t bytes, handle comm);

static inline int fanin_is_refused(uint32_t status)
{
    return status != FANIN_SUCCESS && status != FANIN_PENDING;
}
#endif
