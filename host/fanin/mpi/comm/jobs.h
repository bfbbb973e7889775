/* The jobs of this process, one for each communicator and each persistent request, until the device has confirmed the
 * leave. */
#ifndef FANIN_MPI_JOBS_H
#define FANIN_MPI_JOBS_H
#include "fanin.h"

#define SHIM_LEAVE_MS 10000 /* for a device to confirm a leave */

/* Enter a joined job. */
void shim_enter_job(struct fanin_communicator *job);

/* Leave a job when its operations have ended. Does not wait. */
void shim_leave_job(struct fanin_communicator *job);

/* Wait at most `timeout_ms` for each job that is being left. */
void shim_finish_leaving(uint32_t timeout_ms);

/* Leave all jobs, and wait at most SHIM_LEAVE_MS for each. */
void shim_leave_all_jobs(void);

/* Jobs with queues of the device, including those being left. */
uint32_t shim_jobs_in_use(void);

int shim_is_leaving(void);
#endif
