/* The members of this process: queue pairs in jobs, from the making of their queues until the device has let them go. */
#ifndef FANIN_MPI_MEMBERS_H
#define FANIN_MPI_MEMBERS_H
#include "communicator.h"

/* Queues for a new member. Where the device has no more, what was left is waited for first. */
enum fanin_status fanin_find_queues(struct member *member);
void fanin_destroy_queues(struct member *member);
uint32_t fanin_queues_in_use(void);

/* It has joined: from now on it is let go by fanin_leave_job. */
void fanin_enter_member(struct member *member);

/* Leave all jobs that have not been left. */
void fanin_leave_all(void);

/* Wait until what is under way in members that were left is done and the device has confirmed, at most `timeout_ms` for
 * each. One in which something is still under way then stays. */
void fanin_finish_leaving(unsigned timeout_ms);
#endif
