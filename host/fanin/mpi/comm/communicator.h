/* The communicators of the program, and the job that each has on the devices. The shim enters a communicator in its
 * table when it is first used, and drops it when the program frees it. */
#ifndef FANIN_MPI_COMMUNICATOR_H
#define FANIN_MPI_COMMUNICATOR_H
#include "fanin.h"
#include "report.h"

enum state { FRESH, JOINED, LEFT_TO_MPI };

struct communicator {
    struct communicator *next; /* of its bucket */
    handle handle;
    int rank, ranks;
    enum state state;
    enum reason reason;        /* why it is LEFT_TO_MPI */
    struct fanin_communicator *job; /* if it is JOINED */
    int used;                  /* by a call that could be offloaded */
};

/* Whether this program offloads: all ranks of MPI_COMM_WORLD have a device and the same settings. Equal on all
 * ranks. */
extern int shim_active;

void shim_communicators_begin(void);
/* Leave all jobs. All ranks of MPI_COMM_WORLD call it, in MPI_Finalize. */
void shim_communicators_end(void);

/* The entry of a communicator; NULL if the handle is none. */
struct communicator *shim_communicator(handle comm);

/* Form the job of a FRESH communicator. All its ranks call this at the same point, and get the same state: JOINED or
 * LEFT_TO_MPI. `early`, before the communicator is used, it may also stay FRESH. */
void shim_join_communicator(struct communicator *communicator, int early);

/* A communicator is used for the first time. */
void shim_note_use(struct communicator *communicator);

/* Whether communicators join when they are made: not if the program has freed the last few without using them. */
int shim_early_join_pays(void);

/* All ranks of a communicator have just made it. */
void shim_communicator_created(handle comm);

/* Form another job for the ranks of a communicator, likewise. `job` is written if it is JOINED. */
enum state shim_form_job(const struct communicator *communicator, int early, struct fanin_communicator **job);
#endif
