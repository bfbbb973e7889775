/* Programs that do more than call collectives. The first argument chooses a scene of the folder `mixed`; exit code 0:
 * all is as MPI promises. */
#include "mixed/scenes.h"

#include <stdio.h>
#include <string.h>

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {
    {"requests", wait_for_requests},
    {"late", free_late},
    {"types", derive_types},
    {"messages", let_messages_go_on},
    {"counts", gather_counts},
    {"sizes", change_sizes},
    {"communicators", make_communicators},
    {"nonblocking", never_block},
    {"worth", become_worth_a_job},
    {"between", join_between_nonblocking_calls},
    {"queues", use_up_queues},
    {"room", wait_for_room},
    {"threads", use_threads},
    {"left", leave_to_mpi},
    {"aliases", alias_buffers},
    {"freed", use_what_is_freed},
    {"memory", run_out_of_memory},
    {"refused", be_refused},
    {"differ", differ},
    {"switch", lose_a_switch},
    {"loss", lose_a_rank},
    {"loss in a part", lose_a_rank_in_a_part},
    {"many", begin_many},
    {"ahead", run_ahead},
    {"scatter", scatter_counts},
    {"look", look_at_all},
    {"lookers", look_from_two_threads},
    {"looker", look_while_another_waits},
    {"gaps", keep_gaps},
    {"arguments", mistake_arguments},
    {"fortran", use_types_of_fortran},
    {"handlers", fail_requests},
    {"codes", fail_often},
    {"starved", test_beside_a_starved_device},
};

int rank, ranks, wrong;
const char *argument;

void expect(int condition, const char *what)
{
    if (!condition && wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

static void play(const char *name)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(scenes[i].name, name)) {
            scenes[i].play();
            return;
        }
    expect(0, "there is no such scene");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int provided, all;

    argument = argc > 2 ? argv[2] : "";
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    play(name);
    PMPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %d wrong\n", name, all);
    MPI_Finalize();
    return all != 0;
}
