/* One rank of the contender "fanin C": as rank_program.py, for a program in C on libfanin.
 *
 * Arguments: KIND SOCKET. KIND is "registered" or "ordinary" (memory). The commands and replies are those of
 * rank_program.py; the data are the same as well.
 */
#define _GNU_SOURCE /* fdopen, dup */
#include <fanin/fanin.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD = 251, TIMEOUT_MS = 120000, MAX_LINE = 4096 };

static struct fanin_context *device;
static struct fanin_communicator *communicator;
static uint32_t rank, ranks;
static int registered;

struct array {
    float *items;
    uint32_t lkey;
    uint64_t bytes;
};

static struct array source, result;
static uint64_t count;

static void check(enum fanin_status status, const char *what)
{
    if (status == FANIN_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, fanin_status_name(status), fanin_status_remedy(status));
    exit(1);
}

static struct array new_array(void)
{
    struct array array = {.bytes = count * sizeof(float)};
    void *memory = NULL;

    if (registered)
        check(fanin_allocate(device, array.bytes, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &memory, &array.lkey),
              "registering memory");
    else
        memory = malloc(array.bytes);
    if (!memory)
        check(FANIN_NO_RESOURCES, "allocating memory");
    array.items = memory;
    return array;
}

static void free_array(struct array *array)
{
    if (registered && array->items) {
        check(fanin_deregister(device, array->lkey), "deregistering memory");
        fanin_unmap(array->items, array->bytes);
    } else {
        free(array->items);
    }
    *array = (struct array){0};
}

static void call(void)
{
    check(fanin_allreduce(communicator, source.items, result.items, count, FANIN_DTYPE_F32, FANIN_OP_SUM),
          "allreduce");
}

static void prepare(uint64_t elements, uint64_t warm)
{
    free_array(&source);
    free_array(&result);
    count = elements;
    source = new_array();
    result = new_array();
    for (uint64_t i = 0; i < count; i++) {
        source.items[i] = (float)(i % PERIOD + rank);
        result.items[i] = -1;
    }
    while (warm--)
        call();
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of each of `repeat` calls, after `warm` that do not count. */
static void measure(FILE *replies, uint64_t warm, uint64_t repeat)
{
    uint64_t *times = malloc((repeat + 1) * sizeof *times);

    if (!times)
        check(FANIN_NO_RESOURCES, "allocating memory");
    for (uint64_t i = 0; i < count; i++)
        result.items[i] = -1;
    while (warm--)
        call();
    for (uint64_t i = 0; i < repeat; i++) {
        uint64_t start = now_ns();
        call();
        times[i] = now_ns() - start;
    }
    fputs("{\"ns\": [", replies);
    for (uint64_t i = 0; i < repeat; i++)
        fprintf(replies, "%s%" PRIu64, i ? ", " : "", times[i]);
    fputs("]}\n", replies);
    free(times);
}

/* Elements that are not the sum. */
static uint64_t wrong(void)
{
    uint64_t found = 0;

    for (uint64_t i = 0; i < count; i++)
        found += result.items[i] != (float)(i % PERIOD * ranks + ranks * (ranks - 1) / 2);
    return found;
}

static uint64_t number_of(const char *line, const char *name)
{
    const char *found = strstr(line, name);

    return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

static void serve(FILE *commands, FILE *replies)
{
    char line[MAX_LINE];

    fprintf(replies, "{\"rank\": %u, \"size\": %u}\n", rank, ranks);
    fflush(replies);
    while (fgets(line, sizeof line, commands)) {
        if (strstr(line, "\"prepare\"")) {
            prepare(number_of(line, "\"count\": "), number_of(line, "\"warm\": "));
            fputs("{}\n", replies);
        } else if (strstr(line, "\"time\"")) {
            measure(replies, number_of(line, "\"warm\": "), number_of(line, "\"repeat\": "));
        } else if (strstr(line, "\"verify\"")) {
            fprintf(replies, "{\"wrong\": %" PRIu64 "}\n", wrong());
        } else {
            free_array(&source);
            free_array(&result);
            fputs("{}\n", replies);
        }
        fflush(replies);
    }
}

int main(int arguments, char **argument)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    struct fanin_job job;

    if (arguments != 3 || strlen(argument[2]) >= sizeof address.sun_path)
        check(FANIN_INVALID_REQUEST, "the arguments are KIND SOCKET");
    registered = !strcmp(argument[1], "registered");
    strcpy(address.sun_path, argument[2]);
    check(fanin_job_of_environment(&job, &rank), "reading the job");
    ranks = job.ranks;
    check(fanin_open(NULL, &device), "opening the device");
    check(fanin_join(device, &job, rank, TIMEOUT_MS, &communicator), "joining");
    if (connect(connection, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("connecting to the benchmark");
        return 1;
    }
    serve(fdopen(connection, "r"), fdopen(dup(connection), "w"));
    check(fanin_leave(communicator, TIMEOUT_MS), "leaving");
    fanin_close(device);
    free((void *)job.places);
    return 0;
}
