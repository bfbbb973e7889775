/* A rank is lost, in each form of a call, and within a part of a long message. */
#include "scenes.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONGEST = 1 << 20, LENGTHS = 21, DEATH = 20, PATIENCE_MS = 10000 };

static double in[LONGEST], out[LONGEST];
#if HAS_PERSISTENT
static MPI_Request again = MPI_REQUEST_NULL;
#endif

static int call(int count)
{
    return MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The result overwrites the data. */
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

/* The error of one request among others is in its status. */
static int wait_for_all(int count)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int code = MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[1]);

    code = code ? code : MPI_Waitall(2, requests, statuses);
    return code == MPI_ERR_IN_STATUS ? statuses[1].MPI_ERROR : code;
}

#if HAS_PERSISTENT
static int start(int count)
{
    int code = MPI_SUCCESS;

    if (again == MPI_REQUEST_NULL)
        code = MPI_Allreduce_init(in, out, LONGEST, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &again);
    for (int i = 0; i < count && i < 2 && !code; i++) {
        code = MPI_Start(&again);
        code = code ? code : MPI_Wait(&again, MPI_STATUS_IGNORE);
    }
    return code;
}
#else
#define start call
#endif

static const struct {
    const char *name;
    int (*act)(int count);
} forms[] = {{"call", call}, {"in place", call_in_place}, {"wait", wait_for}, {"test", test},
             {"wait for all", wait_for_all}, {"start", start}};

/* The launcher ends all when one has ended, so each waits until all have written their results. */
static void say(const char *text)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/rank%d", argument, rank);
    file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    for (int other = 0, waited = 0; other < ranks - 1 && waited < PATIENCE_MS; waited++) {
        snprintf(path, sizeof path, "%s/rank%d", argument, other);
        if (access(path, F_OK))
            usleep(1000);
        else
            other++;
    }
}

/* A rank dies within a collective: the others get an error, and do not wait. They write it to files in the folder
 * `argument`, since a launcher that has lost a rank may drop output. FORM in the environment: the form of the call. */
void lose_a_rank(void)
{
    const char *form = getenv("FORM");
    char text[MPI_MAX_ERROR_STRING] = "no error";
    int code = MPI_SUCCESS, length, chosen = 0;

    while (strcmp(forms[chosen].name, form))
        chosen++;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 100000 && code == MPI_SUCCESS; i++) {
        if (i == DEATH && rank == ranks - 1)
            raise(SIGKILL);
        code = forms[chosen].act(1 << (i % LENGTHS));
    }
    if (code)
        MPI_Error_string(code, text, &length);
    say(text);
    _Exit(3);
}

enum { LONG = 4 << 20, SPREAD = 1 << 20, FAILURES = 10 };

static void die(int signal)
{
    (void)signal;
    raise(SIGKILL);
}

/* LONG numbers, of which the dying rank can read only the first half. */
static double *half_readable(void)
{
    size_t bytes = LONG * sizeof(double);
    double *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (rank == ranks - 1) {
        signal(SIGSEGV, die);
        signal(SIGBUS, die);
        mprotect((char *)data + bytes / 2, bytes / 2, PROT_NONE);
    }
    return data;
}

/* Failing calls with packed data. Returns the bytes of memory that they never free. */
static size_t kept_by_failures(void)
{
    double *spread = calloc(2 * SPREAD, sizeof *spread);
    MPI_Datatype type;
    size_t before;

    MPI_Type_vector(SPREAD, 1, 2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    before = mallinfo2().hblkhd;
    for (int i = 0; i < FAILURES; i++)
        expect(MPI_Bcast(spread, 1, type, 0, MPI_COMM_WORLD), "no error in what follows");
    return mallinfo2().hblkhd - before;
}

/* The others have posted some parts, and prepared more. */
void lose_a_rank_in_a_part(void)
{
    double *data = half_readable(), *result = malloc(LONG * sizeof *result);
    char text[MPI_MAX_ERROR_STRING + 100], error[MPI_MAX_ERROR_STRING] = "no error";
    int code, length;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    code = MPI_Allreduce(data, result, LONG, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (code)
        MPI_Error_string(code, error, &length);
    length = (int)(kept_by_failures() >> 20);
    snprintf(text, sizeof text, "%s; %d wrong; kept %d MiB", error, wrong, length);
    say(text);
    _Exit(3);
}
