/* PMI-1: lines of words `key=value` on a socket that Hydra hands to each process. The MPI begins with the same `init`
 * itself, later; Hydra answers it as often as it is asked. A value that is put before the barrier of MPI_Init can be
 * had on all nodes after it. */
#include "presence/presence.h"
#include "abi/pmpi.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 1024   /* bytes of a line, as in MPICH */
#define NAME 256
#define ANSWER_MS 10000
#define LONGEST_VERSION 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of any MPI */

static int server = -1; /* -1: none, or one that has not answered */
static char space[NAME]; /* of the keys of this MPI_COMM_WORLD */

/* Send a line, and take the one that answers it. Returns whether that reports no failure (`rc=` and not 0). */
static int ask(const char *question, char *answer)
{
    struct pollfd readable = {.fd = server, .events = POLLIN};
    size_t length = strlen(question), taken = 0;
    const char *code;

    if (write(server, question, length) != (ssize_t)length)
        taken = LINE;
    while (taken < LINE - 1 && (!taken || answer[taken - 1] != '\n')) {
        if (poll(&readable, 1, ANSWER_MS) < 1 || read(server, answer + taken, 1) < 1)
            taken = LINE;
        else
            taken++;
    }
    if (taken >= LINE - 1) {
        server = -1;
        return 0;
    }
    answer[taken] = 0;
    code = strstr(answer, " rc=");
    return !code || atoi(code + 4) == 0;
}

/* Other launchers hand over a socket under the same name, and other MPIs of this family have launchers like Hydra: they
 * may speak otherwise. Equal on all ranks. */
static int is_hydra(void)
{
    char version[LONGEST_VERSION];
    int length;

    return getenv("PMI_FD") && getenv("PMI_RANK") && getenv("MPI_LOCALNRANKS") &&
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
