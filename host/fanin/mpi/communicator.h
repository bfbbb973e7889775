/* Communicators and their jobs. Each is looked at when it is first used, and forgotten when the program frees it. */
#ifndef FANIN_MPI_COMMUNICATOR_H
#define FANIN_MPI_COMMUNICATOR_H
#include "job.h"
#include "plan.h"
#include "report.h"
#include "stream.h"

/* A queue pair in a job: the stream of a communicator, or of one persistent request. */
struct member {
    struct member *next;       /* of those that have not ended */
    struct stream stream;
    struct terms terms;
    struct fanin_request *leave; /* under way */
    int abandoned;             /* its queue pair is gone: the device may give the number to another */
    struct member *watched_next; /* of those that progress.c looks after, while `watched` */
    int watched;
    unsigned references;       /* requests of the program under way in it, and one until the device has let it go */
};

enum state { FRESH, JOINED, LEFT_TO_MPI };

struct communicator {
    struct communicator *next; /* of its bucket */
    handle handle;
    int rank, ranks;
    enum state state;
    enum reason reason;        /* LEFT_TO_MPI: why */
    struct member *member;     /* JOINED */
    int used;                  /* by a call that could be offloaded */
};

void fanin_communicators_begin(void);
/* Leave all jobs. Collective over MPI_COMM_WORLD, since MPI_Finalize is. */
void fanin_communicators_end(void);

/* What is known of a communicator; NULL for what is none. */
struct communicator *fanin_communicator(handle comm);

/* Form the job of a FRESH communicator: all its ranks call this at the same point. It is JOINED or LEFT_TO_MPI then. Where
 * that is `early`, before any use, it stays FRESH unless that pays, and all ranks have plenty of queues left. */
void fanin_join_communicator(struct communicator *communicator, int early);

/* It is used for the first time. */
void fanin_note_use(struct communicator *communicator);

/* Whether programs use what joins when it is made: not if it has lately freed several that it never used. */
int fanin_early_pays(void);

/* All ranks of a communicator have just made it. */
void fanin_created(handle comm);

/* A job of its own for the ranks of a communicator, as above. The state is the same on all of them. */
enum state fanin_form_job(struct communicator *communicator, int early, struct member **formed);
/* Does not wait, and what is under way is done first. */
void fanin_leave_job(struct member *member);

/* A request of the program is under way in it, or is no more: its memory stays until then. */
void fanin_hold_member(struct member *member);
void fanin_release_member(struct member *member);

/* The job can not go on for this rank: end it for all, so that nobody waits. */
void fanin_abandon_job(struct member *member);

/* Let every job of this process post what has waited for room. */
void fanin_advance_all(void);

/* Whether another job than that of this stream still has something to post. */
int fanin_others_wait(const struct stream *stream);
#endif
