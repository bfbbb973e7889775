/* Leaving jobs without waiting, and waiting for it at last. */
#ifndef FANIN_MPI_MEMBERSHIP_H
#define FANIN_MPI_MEMBERSHIP_H

/* Wait until the device has confirmed all that was left, at most `timeout_ms` in all. */
void fanin_finish_leaving(unsigned timeout_ms);
/* Leave all jobs that have not been left. */
void fanin_leave_all(void);
#endif
