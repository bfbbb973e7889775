/* The scenes of the program `mixed`. All ranks play a scene together. */
#ifndef SCENES_H
#define SCENES_H

#include <mpi.h>
#include "plain_mpi.h"

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAS_PERSISTENT 1 /* MPI_Allreduce_init and the like */
#else
#define HAS_PERSISTENT 0
#endif

extern int rank, ranks;      /* of MPI_COMM_WORLD */
extern int wrong;            /* errors on this rank */
extern const char *argument; /* of the scene, or "" */

/* Count and print an error unless `condition` holds. */
void expect(int condition, const char *what);

/* requests.c */
void wait_for_requests(void);
void free_late(void);

/* types.c */
void derive_types(void);

/* messages.c */
void let_messages_go_on(void);
void gather_counts(void);

/* memory.c */
void change_sizes(void);

/* communicators.c */
void make_communicators(void);
void never_block(void);
void become_worth_a_job(void);
void join_between_nonblocking_calls(void);
void use_up_queues(void);
void wait_for_room(void);
void use_threads(void);

/* left.c */
void leave_to_mpi(void);
void alias_buffers(void);
void use_what_is_freed(void);

/* failures.c */
void run_out_of_memory(void);
void be_refused(void);
void differ(void);
void lose_a_switch(void);

/* loss.c */
void lose_a_rank(void);
void lose_a_rank_in_a_part(void);

/* one_way.c */
void run_ahead(void);

/* kept.c */
void keep_gaps(void);
void mistake_arguments(void);
void use_types_of_fortran(void);
void fail_requests(void);
void fail_often(void);

/* elsewhere.c */
void begin_many(void);
void scatter_counts(void);
void look_at_all(void);
void look_from_two_threads(void);
void look_while_another_waits(void);
void test_beside_a_starved_device(void);

#endif
