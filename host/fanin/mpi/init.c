/* In MPI_Init all ranks of MPI_COMM_WORLD agree whether to offload; in MPI_Finalize they leave their jobs. */
#include "init.h"
#include "abi/elements.h"
#include "abi/mpi_progress.h"
#include "abi/pmpi.h"
#include "calls/aliases.h"
#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/members.h"
#include "presence/presence.h"
#include "report.h"
#include "requests/progress.h"
#include "requests/requests.h"
#include "settings.h"
#include "tune.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_FABRICS 300 /* characters in a warning */
#define MAX_PATH 512
#define MAX_ASKED 512 /* ranks of a world up to which each asks for all others */

static void say_why_not(int all, int first, enum fanin_status status)
{
    const char *named = getenv("FANIN_SOCKET");
    char fabrics[MAX_FABRICS];

    fanin_name_fabrics(fabrics, sizeof fabrics);
    if (all && named && *named)
        shim_warn("NO_DEVICE: collectives stay with MPI: no device listens at FANIN_SOCKET, %.200s; bring one up "
                  "(fanin fabric up), and name its socket", named);
    else if (all && shim_fabric_is_elsewhere())
        shim_warn("NO_DEVICE: collectives stay with MPI: the NICs of the fabric 'default' are in other network "
                  "namespaces; let mpirun start the ranks there with a launch agent (fanin mpi-lib --launch-agent "
                  "FILE), or bring the fabric up without --netns");
    else if (all && *fabrics)
        shim_warn("NO_DEVICE: collectives stay with MPI: no fabric 'default' is up here; up are %s: set FANIN_SOCKET "
                  "so in all ranks", fabrics);
    else if (all)
        shim_warn("NO_DEVICE: collectives stay with MPI: no device was found; bring one up (fanin fabric up), or name "
                  "its socket in FANIN_SOCKET");
    else if (status == FANIN_NO_DEVICE)
        shim_warn("NO_DEVICE: collectives stay with MPI: rank %d, on host %s, can not use its device; give each "
                  "node one, or unset LD_PRELOAD", first, shim_host_of(first));
    else
        shim_warn("%s: collectives stay with MPI: rank %d, on host %s, can not use its device. %s",
                  fanin_status_name(status), first, shim_host_of(first), fanin_status_remedy(status));
}

/* For a program with one rank: warn if another MPI's launcher has started several. A launcher of its own MPI, also
 * within such a job, would have set `own`. */
static void be_alone(void)
{
    const char *own = getenv(shim_abi->speaks_pmi ? "PMI_SIZE" : "OMPI_COMM_WORLD_SIZE");
    const char *size = getenv(shim_abi->speaks_pmi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE");
    const char *number = getenv(shim_abi->speaks_pmi ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK");

    if (own || !size || !number || atoi(size) < 2 || atoi(number))
        return;
    shim_read_settings();
    if (shim_settings.report != REPORT_NONE)
        shim_warn("WRONG_LAUNCHER: each of the %d ranks runs alone, with nothing to offload: their launcher is not of "
                  "the MPI that they are linked with (%s); start them with its own mpirun", atoi(size), shim_abi->name);
}

/* Whether all ranks have the shim, as far as the launcher knows. If not, rank 0 warns, or the first rank with the shim
 * after ranks without it (launchers give a program consecutive ranks). */
static int is_everywhere(int rank, int ranks)
{
    enum presence found = PRESENT;
    int absent = 0, speaks;

    if (ranks > MAX_ASKED || shim_presence_of(rank) != PRESENT) /* the launcher does not even know this rank */
        return 1;
    while (absent < ranks && (found = shim_presence_of(absent)) == PRESENT)
        absent++;
    if (absent == ranks || found == NOT_KNOWN)
        return 1;
    shim_read_settings(); /* each rank its own, so that strict calls fail on all ranks */
    speaks = rank == 0 || (absent == 0 && (rank == 1 || shim_presence_of(rank - 1) == ABSENT));
    if (speaks && shim_settings.report != REPORT_NONE)
        shim_warn("NOT_EVERYWHERE: collectives stay with MPI: rank %d runs without libfanin_mpi.so. Set LD_PRELOAD "
                  "for all parts of the launcher's command line or for none; a program that is linked statically, or "
                  "that runs as another user, can not have it", absent);
    return 0;
}

static int agree(int rank, int ranks)
{
    int first = ranks, all = 1;

    shim_exchange_members(shim_pack_adds_nothing() ? shim_open_device(rank, ranks) : FANIN_NOT_SUPPORTED, rank, ranks);
    for (int other = ranks - 1; other >= 0; other--) {
        first = shim_status_of(other) == FANIN_SUCCESS ? first : other;
        all &= shim_status_of(other) == FANIN_NO_DEVICE;
    }
    if (first < ranks && rank == 0 && shim_settings.report != REPORT_NONE)
        say_why_not(all, first, shim_status_of(first));
    return first == ranks;
}

void shim_begin(void)
{
    static int begun; /* MPI_Init of Fortran may call that of C */
    int rank, ranks, able;

    shim_begin_counting();
    pmpi.Comm_rank(shim_handle(COMM_WORLD), &rank);
    pmpi.Comm_size(shim_handle(COMM_WORLD), &ranks);
    if (begun++)
        return;
    if (ranks == 1)
        be_alone();
    if (ranks == 1 || !is_everywhere(rank, ranks))
        return;
    if (rank == 0)
        shim_read_settings();
    able = agree(rank, ranks);
    pmpi.Bcast(&shim_settings, sizeof shim_settings, shim_handle(TYPE_BYTE), 0, shim_handle(COMM_WORLD));
    if (!able) { /* for FANIN_MPI_STRICT */
        shim_close_device();
        shim_forget_members();
        return;
    }
    shim_begin_mpi_progress();
    shim_probe_alias_check();
    shim_communicators_begin(shim_forget_communicator);
    shim_active = 1;
    shim_communicator_created(shim_handle(COMM_WORLD));
    shim_tune();
}

void shim_end(void)
{
    char path[MAX_PATH];

    if (!shim_active)
        return;
    shim_active = 0;
    if (shim_settings.report == REPORT_TABLE) {
        shim_name_path(path, sizeof path);
        shim_report(path);
    }
    if (shim_settings.report == REPORT_IDLE)
        shim_report_idle();
    shim_communicators_end();
    shim_end_watching();
    shim_end_mpi_progress();
    shim_close_device();
    shim_forget_members();
}
