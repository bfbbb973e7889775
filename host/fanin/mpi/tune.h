#ifndef FANIN_MPI_TUNE_H
#define FANIN_MPI_TUNE_H

/* If rank 0 has FANIN_MPI_TUNE, measure, and write thresholds to that file. All ranks of MPI_COMM_WORLD call it. */
void shim_tune(void);
#endif
