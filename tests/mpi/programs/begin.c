/* MPI_Init beside signals, after a session with a late rank, or after a call of PMIx_Commit by name, as of a program
 * that looks for PMIx; then a sum. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { BETWEEN_US = 100, LATE_US = 1500000 };

static void ignore(int signal)
{
    (void)signal;
}

static void be_interrupted(long between_us)
{
    const struct itimerval timer = {{0, between_us}, {0, between_us}};
    struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
static MPI_Session session;

static void come_from_a_session(void)
{
    MPI_Group group;
    MPI_Comm comm;
    int rank;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "begin", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    if (rank == 1)
        usleep(LATE_US);
}

static void end_the_session(void)
{
    MPI_Session_finalize(&session);
}
#else
#define come_from_a_session() abort()
#define end_the_session() abort()
#endif

int main(int argc, char **argv)
{
    int (*commit)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PMIx_Commit");
    int one = 1, sum, rank;

    if (!strcmp(argv[1], "signals"))
        be_interrupted(BETWEEN_US);
    if (!strcmp(argv[1], "session"))
        come_from_a_session();
    if (!strcmp(argv[1], "function") && commit)
        commit();
    MPI_Init(&argc, &argv);
    be_interrupted(0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: the sum is %d\n", argv[1], sum);
    MPI_Finalize();
    if (!strcmp(argv[1], "session"))
        end_the_session();
}
