/* A rank dies in mid-collective: the others get an error, and do not wait. They say so in files of the folder that is the
 * first argument, since a launcher that has lost a rank passes on what it likes. The second is the form of the calls.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 1 << 20, LENGTHS = 21, DEATH = 20, PATIENCE_S = 2 };

static int rank, ranks;
static double in[LONGEST], out[LONGEST];
static MPI_Request again[LENGTHS];

static int call(int count)
{
    return MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* What is written over is what was brought. */
static int call_in_place(int count)
{
    return MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static int wait_for(int count)
{
    MPI_Request request;
    int code = MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);

    return code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int test(int count)
{
    MPI_Request request;
    int flag = 0, code = MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);

    while (!code && !flag)
        code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return code;
}

/* The error of one request among others stands in its status. */
static int wait_for_all(int count)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int code = MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[1]);

    code = code ? code : MPI_Waitall(2, requests, statuses);
    return code == MPI_ERR_IN_STATUS ? statuses[1].MPI_ERROR : code;
}

static int start(int count)
{
    int power = 0, code;

    while (1 << power < count)
        power++;
    code = MPI_Start(&again[power]);
    return code ? code : MPI_Wait(&again[power], MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    int (*act)(int count);
} forms[] = {{"call", call}, {"in place", call_in_place}, {"wait", wait_for}, {"test", test},
             {"wait for all", wait_for_all}, {"start", start}};

static void say(const char *folder, const char *text)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/rank%d", folder, rank);
    file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

int main(int argc, char **argv)
{
    int (*act)(int) = NULL, code = MPI_SUCCESS, length;
    char text[MPI_MAX_ERROR_STRING] = "no error";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    signal(SIGUSR1, SIG_IGN); /* of the launcher of MPICH, which tells that a rank is lost */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (!strcmp(argv[2], forms[i].name))
            act = forms[i].act;
    for (int i = 0; i < LENGTHS && act == start; i++)
        MPI_Allreduce_init(in, out, 1 << i, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &again[i]);
    for (int i = 0; i < 100000 && code == MPI_SUCCESS; i++) {
        if (i == DEATH && rank == ranks - 1)
            raise(SIGKILL);
        code = act(1 << (i % LENGTHS));
    }
    if (code)
        MPI_Error_string(code, text, &length);
    say(argv[1], text);
    sleep(PATIENCE_S); /* its launcher ends the others when one has ended so */
    _Exit(3);
}
