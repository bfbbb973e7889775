/* The jobs of this process, one for each communicator and each persistent request, until their devices have confirmed
 * that this rank has left. */
#ifndef FANIN_MPI_JOBS_H
#define FANIN_MPI_JOBS_H
#include "fanin.h"

#define SHIM_LEAVE_MS 10000 /* for a device to confirm that a job is left */

/* A job has been joined. shim_leave_job leaves it. */
void shim_enter_job(struct fanin_communicator *job);

/* Leave a job. Does not wait: operations that are under way come to their end first. */
void shim_leave_job(struct fanin_communicator *job);

/* Wait at most `timeout_ms` for each job that is being left. Those that are not left then stay. */
void shim_finish_leaving(uint32_t timeout_ms);

/* Leave all jobs, and wait at most SHIM_LEAVE_MS for each. */
void shim_leave_all_jobs(void);

/* Jobs that have queues of the device: those that are being left, too. */
uint32_t shim_jobs_in_use(void);

/* Whether a job is still being left. */
int shim_is_leaving(void);
#endif
