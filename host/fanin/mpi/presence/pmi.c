/* PMI-1: lines of `key=value` on a socket from Hydra. Hydra answers `init` again when the MPI sends it later. All nodes
 * can get a value after the barrier of MPI_Init that follows its put. The MPI reads the same socket, so no answer may
 * be left in it. */
#include "presence/presence.h"
#include "abi/pmpi.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 1024   /* bytes, as in MPICH */
#define NAME 256
#define MAX_VERSION 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of any MPI */

static int server = -1; /* -1: none, or closed */
static char space[NAME]; /* of the keys of this MPI_COMM_WORLD */

static int send_line(const char *line)
{
    size_t sent = 0, length = strlen(line);

    while (sent < length) {
        ssize_t step = write(server, line + sent, length - sent);
        if (step < 0 && errno != EINTR)
            return 0;
        sent += step > 0 ? (size_t)step : 0;
    }
    return 1;
}

/* One question at a time, so nothing follows the line. */
static int take_line(char *line)
{
    size_t taken = 0;

    while (!taken || line[taken - 1] != '\n') {
        ssize_t step = read(server, line + taken, LINE - 1 - taken);
        if (step == 0 || (step < 0 && errno != EINTR))
            return 0;
        taken += step > 0 ? (size_t)step : 0;
    }
    line[taken] = 0;
    return 1;
}

/* Send a line and read its answer. Returns 0 if that has an `rc=` other than 0. */
static int ask(const char *question, char *answer)
{
    const char *code;

    if (!send_line(question) || !take_line(answer)) {
        server = -1;
        return 0;
    }
    code = strstr(answer, " rc=");
    return !code || atoi(code + 4) == 0;
}

static int is_of_version_1(const char *name)
{
    const char *version = getenv(name);

    return !version || !strcmp(version, "1");
}

/* Other launchers pass a socket in the same variable, but may speak another protocol. Equal on all ranks. */
static int is_hydra(void)
{
    char version[MAX_VERSION];
    int length;

    return getenv("PMI_FD") && getenv("PMI_RANK") && getenv("MPI_LOCALNRANKS") &&
           is_of_version_1("MPIR_CVAR_PMI_VERSION") && is_of_version_1("MPICH_PMI_VERSION") &&
           !pmpi.Get_library_version(version, &length) && !strncmp(version, "MPICH Version", 13);
}

void shim_pmi_say_present(void)
{
    char line[LINE], answer[LINE];
    const char *found;

    if (!is_hydra())
        return;
    server = atoi(getenv("PMI_FD"));
    if (!ask("cmd=init pmi_version=1 pmi_subversion=1\n", answer) || !ask("cmd=get_my_kvsname\n", answer))
        server = -1;
    found = server < 0 ? NULL : strstr(answer, "kvsname=");
    if (!found || sscanf(found, "kvsname=%255s", space) != 1)
        server = -1;
    snprintf(line, sizeof line, "cmd=put kvsname=%s key=fanin-shim-%s value=1\n", space, getenv("PMI_RANK"));
    if (server >= 0 && !ask(line, answer))
        server = -1;
}

enum presence shim_pmi_presence_of(int rank)
{
    char line[LINE], answer[LINE];
    int is_there;

    snprintf(line, sizeof line, "cmd=get kvsname=%s key=fanin-shim-%d\n", space, rank);
    is_there = server >= 0 && ask(line, answer);
    if (server < 0)
        return NOT_KNOWN;
    return is_there ? PRESENT : ABSENT;
}
