/* The agreement of all ranks of MPI_COMM_WORLD, and the end of everything. */
#include "world.h"
#include "aliases.h"
#include "communicator.h"
#include "device.h"
#include "elements.h"
#include "pmpi.h"
#include "progress.h"
#include "report.h"
#include "settings.h"
#include <stdio.h>
#include <stdlib.h>

int fanin_active;
static handle progress; /* a communicator on which nothing is ever sent; of all ranks, since MPICH looks at no network for
                          * one of a single rank */

/* The first rank that can not take part, and why; -1: all can. The same on all ranks. */
static int first_without(const int *statuses, int ranks)
{
    for (int rank = 0; rank < ranks; rank++)
        if (statuses[rank] != FANIN_SUCCESS)
            return rank;
    return -1;
}

static void say_why_not(const int *statuses, int ranks, int first)
{
    const char *named = getenv("FANIN_SOCKET");
    int all = 1;

    for (int rank = 0; rank < ranks; rank++)
        all &= statuses[rank] == FANIN_NO_DEVICE;
    if (all && named && *named)
        fanin_warn("NO_DEVICE: collectives stay with MPI: no device listens at FANIN_SOCKET, %.200s; bring one up (fanin "
                   "fabric up), and name its socket", named);
    else if (all)
        fanin_warn("NO_DEVICE: collectives stay with MPI: no device was found; bring one up (fanin fabric up), or name "
                   "its socket in FANIN_SOCKET");
    else
        fanin_warn("%s: collectives stay with MPI: rank %d can not use its device; see that each node has one, or unset "
                   "LD_PRELOAD", fanin_status_name(statuses[first]), first);
}

static int agree(int rank, int ranks)
{
    enum fanin_status status = fanin_packs_plainly() ? fanin_open_device(rank, ranks) : FANIN_NOT_SUPPORTED;
    int *statuses = calloc((size_t)ranks, sizeof *statuses), mine = (int)status, first;

    /* Without memory for a table of ranks the program is at its end anyway. */
    if (!statuses || pmpi.Allgather(&mine, sizeof mine, fanin_object(TYPE_BYTE), statuses, sizeof mine,
                                    fanin_object(TYPE_BYTE), fanin_object(COMM_WORLD)))
        abort();
    first = first_without(statuses, ranks);
    if (first >= 0 && rank == 0)
        say_why_not(statuses, ranks, first);
    free(statuses);
    return first < 0;
}

void fanin_begin_world(void)
{
    static int begun; /* Fortran's initialization may come through that of C */
    int rank, ranks, able;

    pmpi.Comm_rank(fanin_object(COMM_WORLD), &rank);
    pmpi.Comm_size(fanin_object(COMM_WORLD), &ranks);
    if (ranks == 1 || begun++)
        return;
    able = agree(rank, ranks);
    if (rank == 0)
        fanin_read_settings();
    pmpi.Bcast(&fanin_settings, sizeof fanin_settings, fanin_object(TYPE_BYTE), 0, fanin_object(COMM_WORLD));
    if (!able) { /* all know now whether the program wants an error then */
        fanin_close_device();
        return;
    }
    pmpi.Comm_dup(fanin_object(COMM_WORLD), &progress);
    progress = load_handle(&progress);
    pmpi.Comm_set_errhandler(progress, fanin_object(ERRORS_RETURN)); /* whom a lost rank concerns, says the program */
    fanin_try_alias();
    fanin_communicators_begin();
    fanin_active = 1;
    fanin_created(fanin_object(COMM_WORLD));
}

void fanin_end_world(void)
{
    if (!fanin_active)
        return;
    fanin_active = 0;
    if (fanin_settings.report)
        fanin_report();
    fanin_communicators_end();
    fanin_end_watching();
    pmpi.Comm_free(&progress);
    fanin_close_device();
}

void fanin_let_mpi_progress(void)
{
    int flag, status[16];

    pmpi.Iprobe(fanin_family->any_source, fanin_family->any_tag, progress, &flag, status);
}

int fanin_error_code(uint32_t status, const char *function)
{
    int class = fanin_family->error_other, code;
    char text[160];

    if (status == FANIN_PEER_LOST || status == FANIN_DEVICE_LOST)
        class = fanin_error_proc_failed();
    if (!pmpi.Add_error_code || pmpi.Add_error_code(class, &code))
        return class;
    snprintf(text, sizeof text, "MPI_%s on Fanin: %s", function, fanin_status_name(status));
    pmpi.Add_error_string(code, text);
    return code;
}
