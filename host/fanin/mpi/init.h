/* All ranks of MPI_COMM_WORLD call both functions. */
#ifndef FANIN_MPI_INIT_H
#define FANIN_MPI_INIT_H

/* After MPI_Init: find the device, and agree with the other ranks whether to offload. */
void shim_begin(void);

/* Before MPI_Finalize: report, and leave all jobs. */
void shim_end(void);
#endif
