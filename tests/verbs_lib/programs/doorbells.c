/* How a request of 128 bytes may be noticed that is written into memory of the other side: by the completion of a WRITE
 * with immediate data, or by looking at its last word. Two threads with a queue pair each, as host and device:
 *
 *     doorbells DEVICE DEVICE ROUNDS
 *
 * A line for each way: its name; the time one way, in us (half of the median round trip); messages a second, WINDOW in
 * flight; how many messages were not whole when they were noticed. */
#define _GNU_SOURCE
#include "complaint.h"
#include "rdma/queue_pair.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 32, SLOTS = 256, WINDOW = 128, WINDOWS = 8, PATIENCE_MS = 20000 };

struct message { /* the last word is noticed */
    uint32_t words[WORDS];
};

struct side {
    struct rdma_queue_pair pair;
    struct message *sent, *ring; /* SLOTS each; the other side writes into `ring` */
    struct ibv_mr *memory;
    struct side *other;
    uint32_t posted, taken, noticed; /* messages; `noticed`: by their completions, ahead of `taken` */
    uint32_t torn;
    int immediate;
    uint64_t *rounds; /* ns of each */
    int count;
};

static void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, fanin_complaint());
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void post(struct side *side)
{
    uint32_t number = ++side->posted, slot = number % SLOTS;
    struct message *message = &side->sent[slot];
    struct rdma_request request = {
        .opcode = side->immediate ? FANIN_SEND_RDMA_WRITE_WITH_IMM : FANIN_SEND_RDMA_WRITE,
        .local = message,
        .length = sizeof *message,
        .lkey = side->memory->lkey,
        .address = (uintptr_t)&side->other->ring[slot],
        .rkey = side->other->memory->rkey,
        .immediate = number,
    };

    for (int word = 0; word < WORDS; word++)
        message->words[word] = number;
    require(fanin_rdma_post(&side->pair, &request) == FANIN_SUCCESS, "post");
}

static int is_there(struct side *side)
{
    uint32_t immediates[RDMA_REAPED];

    if (!side->immediate)
        return __atomic_load_n(&side->ring[side->taken % SLOTS].words[WORDS - 1], __ATOMIC_ACQUIRE) == side->taken;
    side->noticed += (uint32_t)fanin_rdma_take(&side->pair, immediates);
    require(!fanin_rdma_is_broken(&side->pair), "take");
    return side->noticed >= side->taken;
}

static void await_message(struct side *side)
{
    side->taken++;
    while (!is_there(side)) {
        require(!fanin_rdma_is_broken(&side->pair), "wait");
        sched_yield();
    }
    for (int word = 0; word < WORDS; word++)
        if (side->ring[side->taken % SLOTS].words[word] != side->taken) {
            side->torn++;
            return;
        }
}

static void *answer(void *argument)
{
    struct side *side = argument;

    for (int round = 0; round < side->count; round++) {
        await_message(side);
        post(side);
    }
    for (int window = 0; window < WINDOWS; window++) {
        for (int message = 0; message < WINDOW; message++)
            await_message(side);
        post(side);
    }
    return NULL;
}

static int compare(const void *one, const void *two)
{
    uint64_t first = *(const uint64_t *)one, second = *(const uint64_t *)two;

    return (first > second) - (first < second);
}

static void open_side(struct side *side, const char *device)
{
    size_t length = 2 * SLOTS * sizeof(struct message);

    require(fanin_rdma_open(&side->pair, device, 0) == FANIN_SUCCESS, device);
    side->sent = aligned_alloc(4096, length);
    require(side->sent != NULL, "memory");
    memset(side->sent, 0, length);
    side->ring = side->sent + SLOTS;
    side->memory = side->pair.library->reg_mr(side->pair.domain, side->sent, length,
                                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    require(side->memory != NULL, "register");
}

/* First the queue pair, so that nothing writes to the memory. */
static void close_side(struct side *side)
{
    side->pair.library->destroy_qp(side->pair.qp);
    side->pair.qp = NULL;
    side->pair.library->dereg_mr(side->memory);
    fanin_rdma_close(&side->pair);
    free(side->sent);
}

static void measure(char **devices, int count, int immediate)
{
    struct side host = {.immediate = immediate, .count = count}, device = {.immediate = immediate, .count = count};
    pthread_t thread;
    uint64_t begun;

    host.other = &device;
    device.other = &host;
    host.rounds = calloc((size_t)count, sizeof *host.rounds);
    require(host.rounds != NULL, "memory");
    open_side(&host, devices[0]);
    open_side(&device, devices[1]);
    require(fanin_rdma_connect(&host.pair, &device.pair.endpoint, PATIENCE_MS) == FANIN_SUCCESS, "connect");
    require(fanin_rdma_connect(&device.pair, &host.pair.endpoint, PATIENCE_MS) == FANIN_SUCCESS, "connect");
    require(!pthread_create(&thread, NULL, answer, &device), "thread");
    for (int round = 0; round < count; round++) {
        begun = now_ns();
        post(&host);
        await_message(&host);
        host.rounds[round] = now_ns() - begun;
    }
    begun = now_ns();
    for (int window = 0; window < WINDOWS; window++) {
        for (int message = 0; message < WINDOW; message++)
            post(&host);
        await_message(&host);
    }
    begun = now_ns() - begun;
    pthread_join(thread, NULL);
    qsort(host.rounds, (size_t)count, sizeof *host.rounds, compare);
    printf("%s %.1f %.0f %u\n", immediate ? "immediate" : "polling", (double)host.rounds[count / 2] / 2e3,
           WINDOW * WINDOWS * 1e9 / (double)begun, host.torn + device.torn);
    close_side(&host);
    close_side(&device);
    free(host.rounds);
}

int main(int count, char **words)
{
    int rounds = count == 4 ? atoi(words[3]) : 0;

    if (rounds <= 0) {
        fprintf(stderr, "use: doorbells DEVICE DEVICE ROUNDS\n");
        return 2;
    }
    measure(words + 1, rounds, 1);
    measure(words + 1, rounds, 0);
}
