/* The communicators of the program, and their jobs on the devices. An entry lives from first use until the program
 * frees the communicator. */
#ifndef FANIN_MPI_COMMUNICATOR_H
#define FANIN_MPI_COMMUNICATOR_H
#include "fanin.h"
#include "report.h"
#include "thresholds.h"

struct communicator {
    handle handle;
    int rank, ranks;
    enum reason reason;        /* why the MPI does its calls: at first REASON_NOT_JOINED; NO_REASON: it has a job */
    struct fanin_communicator *job;
    uint64_t without_room;     /* calls since the devices had no room for its job; equal on all ranks */
    uint64_t backoff;         /* such calls before it asks again */
    uint64_t calls, bytes;     /* that a job could have offloaded; equal on all ranks */
    int is_not_revoked;        /* its job has ended, but not by a revocation */
    int has_order_of_mpi;      /* the MPI computes its floating-point sums; equal on all ranks */
    int is_to_join;            /* in its next blocking call; equal on all ranks */
    struct setting setting;    /* of its present or possible job; equal on all ranks */
    struct range ranges[RANGE_COUNT]; /* sizes to offload */
};

/* Whether all ranks of MPI_COMM_WORLD have a device and the same settings. Equal on all ranks. */
extern int shim_active;

/* forget: called for each freed communicator. */
void shim_communicators_begin(void (*forget)(handle comm));
/* Leave all jobs. All ranks of MPI_COMM_WORLD call it. */
void shim_communicators_end(void);

/* A cache of this thread, by handle: asking the MPI takes as long as a short call. Each free of a communicator begins a
 * new generation, and invalidates it. */
struct recent {
    struct communicator *communicator;
    unsigned generation;
};

#define SHIM_RECENTS 16 /* a power of two, for programs that use several in turn */
extern __thread struct recent shim_recents[SHIM_RECENTS] __attribute__((tls_model("initial-exec")));
extern unsigned shim_generation;

static inline struct recent *shim_recent(handle comm)
{
    return &shim_recents[(comm * 0x9e3779b97f4a7c15ull >> 60) % SHIM_RECENTS];
}

/* The cached entry of a communicator, or NULL. */
static inline struct communicator *shim_recent_communicator(handle comm)
{
    const struct recent *recent = shim_recent(comm);
    struct communicator *communicator = recent->communicator;

    if (communicator && recent->generation == __atomic_load_n(&shim_generation, __ATOMIC_ACQUIRE) &&
        communicator->handle == comm)
        return communicator;
    return NULL;
}

/* The entry of a communicator; NULL: the handle is invalid. */
struct communicator *shim_communicator(handle comm);

/* Form the job of a communicator. All its ranks call this at the same point, and get the same reason: NO_REASON,
 * REASON_REFUSED or REASON_NO_ROOM; if `early`, before first use, also REASON_NOT_JOINED. */
void shim_join_communicator(struct communicator *communicator, int early);

/* Count a call of a communicator without room; whether it may ask again now. */
int shim_may_retry(struct communicator *communicator);

/* Count a call of `bytes` that a job could offload; whether the communicator is worth one now. */
int shim_is_worth_a_job(struct communicator *communicator, uint64_t bytes);

/* The path of MPI_COMM_WORLD's present or possible job, as by fanin_name_path; or empty. */
void shim_name_path(char *words, size_t capacity);

/* Called by all ranks of a new communicator. */
void shim_communicator_created(handle comm);

/* Form another job for the ranks of a communicator, as shim_join_communicator. */
enum reason shim_form_job(const struct communicator *communicator, int early, struct fanin_communicator **job);
#endif
