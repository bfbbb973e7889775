/* Forked children use another device than their parent. Arguments: the sockets of the parent's device and of the
 * children's, and the first of some job ids.
 *
 * A thread of the parent polls all the time. After a line of standard input the parent forks. Each child prints
 * "joined", does allreduces until one fails, and prints the status and whether the device stands still. Returns the
 * number of children that failed otherwise. */
#define _DEFAULT_SOURCE /* usleep, alarm */
#include <fanin/fanin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 8, BETWEEN_FORKS_US = 7000, COUNT = 1000, TIMEOUT_MS = 60000, LIMIT_S = 30 };

static struct fanin_context *parents_device;

static void *look_for_completions(void *cq)
{
    struct fanin_cqe cqe;
    uint32_t count, seen;

    while (fanin_poll(parents_device, *(uint32_t *)cq, &cqe, 1, &count, &seen) == FANIN_SUCCESS)
        ;
    return NULL;
}

static void check(enum fanin_status status, const char *what)
{
    if (status == FANIN_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, fanin_status_name(status));
    _exit(1);
}

static void run_child(const char *socket, uint32_t jid)
{
    static int32_t data[COUNT], result[COUNT];
    struct fanin_communicator *communicator;
    struct fanin_context *device;
    enum fanin_status status;

    alarm(LIMIT_S);
    fanin_close_inherited(parents_device);
    check(fanin_open(socket, &device), "open");
    struct fanin_place place = {.address = fanin_limits(device)->address};
    struct fanin_job job = {.jid = jid, .key = 7, .route = FANIN_ROUTE_AUTO, .ranks = 1, .places = &place};
    check(fanin_join(device, &job, 0, TIMEOUT_MS, &communicator), "join");
    puts("joined");
    fflush(stdout);
    do
        status = fanin_allreduce(communicator, data, result, COUNT, FANIN_DTYPE_I32, FANIN_OP_SUM);
    while (status == FANIN_SUCCESS);
    printf("%s %d\n", fanin_status_name(status), fanin_device_stands_still(device));
    exit(0); /* not _exit: the leak check of the address sanitizer runs at exit */
}

int main(int count, char **arguments)
{
    pthread_t thread;
    uint32_t cq, jid;
    int failed = 0, status;
    char line[16];

    alarm(LIMIT_S);
    if (count != 4 || fanin_open(arguments[1], &parents_device) || fanin_create_cq(parents_device, &cq) ||
        pthread_create(&thread, NULL, look_for_completions, &cq))
        return 1;
    jid = (uint32_t)strtoul(arguments[3], NULL, 10);
    puts("looking");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    for (uint32_t child = 0; child < CHILDREN; child++) {
        if (fork() == 0)
            run_child(arguments[2], jid + child);
        usleep(BETWEEN_FORKS_US);
    }
    pthread_join(thread, NULL);
    for (int child = 0; child < CHILDREN; child++)
        failed += wait(&status) < 0 || status != 0;
    fanin_close(parents_device);
    return failed;
}
