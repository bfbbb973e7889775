/* Measuring which collectives and sizes the devices do faster than the MPI of this program. */
#ifndef FANIN_MPI_TUNE_H
#define FANIN_MPI_TUNE_H

/* If rank 0 has FANIN_MPI_TUNE, measure, and write thresholds to the file that it names. All ranks of MPI_COMM_WORLD
 * call it, in MPI_Init. */
void shim_tune(void);
#endif
