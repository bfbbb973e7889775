/* The communicators of the program, and the job that each has on the devices. A communicator gets its
 * entry when it is first used, and loses it when the program frees it. */
#ifndef FANIN_MPI_COMMUNICATOR_H
#define FANIN_MPI_COMMUNICATOR_H
#include "fanin.h"
#include "report.h"
#include "thresholds.h"

struct communicator {
    handle handle;
    int rank, ranks;
    enum reason reason;        /* why the MPI does its calls: REASON_NOT_JOINED as yet; NO_REASON if it has a job */
    struct fanin_communicator *job;
    uint64_t without_room;     /* calls since the devices had no room for its job. Equal on all ranks */
    uint64_t patience;         /* how many there are before it asks again */
    uint64_t calls, bytes;     /* of those that could have been offloaded if there had been a job. Equal on all ranks */
    int is_not_revoked;        /* its job has ended, and the MPI has had time to tell of a revocation */
    int has_order_of_mpi;      /* the MPI has added floating-point numbers, and goes on to do so. Equal on all ranks */
    int is_to_join;            /* in its next call that may wait for the other ranks. Equal on all ranks */
    struct setting setting;    /* of the job that it has or would have. Equal on all ranks */
    struct range ranges[RANGE_COUNT]; /* sizes to offload */
};

/* Whether this program offloads: all ranks of MPI_COMM_WORLD have a device and the same settings. Equal on all
 * ranks. */
extern int shim_active;

/* forget: called with each communicator that is freed. */
void shim_communicators_begin(void (*forget)(handle comm));
/* Leave all jobs. All ranks of MPI_COMM_WORLD call it, in MPI_Finalize. */
void shim_communicators_end(void);

/* Communicators that this thread has used, by their handles; valid while none has been freed since, which makes a new
 * generation. Asking the MPI takes as long as a short call. */
struct recent {
    struct communicator *communicator;
    unsigned generation;
};

#define SHIM_RECENTS 16 /* a power of two. Programs use several in turn: rows, columns, all */
extern __thread struct recent shim_recents[SHIM_RECENTS] __attribute__((tls_model("initial-exec")));
extern unsigned shim_generation;

static inline struct recent *shim_recent(handle comm)
{
    return &shim_recents[(comm * 0x9e3779b97f4a7c15ull >> 60) % SHIM_RECENTS];
}

/* The entry of a communicator, if this thread has used it not long ago; else NULL. */
static inline struct communicator *shim_recent_communicator(handle comm)
{
    const struct recent *recent = shim_recent(comm);
    struct communicator *communicator = recent->communicator;

    if (communicator && recent->generation == __atomic_load_n(&shim_generation, __ATOMIC_ACQUIRE) &&
        communicator->handle == comm)
        return communicator;
    return NULL;
}

/* The entry of a communicator; NULL if the handle is none. */
struct communicator *shim_communicator(handle comm);

/* Form the job of a communicator that is not joined yet. All its ranks call this at the same point, and get the same
 * reason: none, REASON_REFUSED or REASON_NO_ROOM. `early`, before the communicator is used, it may also stay
 * REASON_NOT_JOINED. */
void shim_join_communicator(struct communicator *communicator, int early);

/* Count a call of a communicator for whose job the devices had no room, and tell whether it may ask again now. */
int shim_asks_again(struct communicator *communicator);

/* Count a call of `bytes` that could be offloaded if its communicator had a job, and tell whether it is worth one. */
int shim_is_worth_a_job(struct communicator *communicator, uint64_t bytes);

/* The way of MPI_COMM_WORLD's job, or of the one that it would have, as fanin_name_path says it. Empty: it has none. */
void shim_name_path(char *words, size_t capacity);

/* All ranks of a communicator have just made it. */
void shim_communicator_created(handle comm);

/* Form another job for the ranks of a communicator, likewise. */
enum reason shim_form_job(const struct communicator *communicator, int early, struct fanin_communicator **job);
#endif
