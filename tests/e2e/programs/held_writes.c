/* Preloaded in a device: while the file FANIN_TEST_HELD exists, WRITEs stay in the queue pair, as in a slow network,
 * and no queue pair is destroyed. Then they go on, in their order. The file FANIN_TEST_HELD.holds shows that a message
 * is held, FANIN_TEST_HELD.gone that all have gone. */
#define _GNU_SOURCE
#include "fanin.h"
#include "ibv.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_US = 2000 };

struct held_write {
    struct held_write *next;
    struct ibv_qp *qp;
    struct ibv_send_wr wr;
    struct ibv_sge piece;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the following, and of the library's post_send */
static struct held_write *first, **end = &first;
static int (*post_of_library)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int has_thread;

static int holds(void)
{
    return access(getenv("FANIN_TEST_HELD"), F_OK) == 0;
}

static void say(const char *suffix)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s.%s", getenv("FANIN_TEST_HELD"), suffix);
    if ((file = fopen(path, "we")))
        fclose(file);
}

static int hold(struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    struct held_write *held = calloc(1, sizeof *held);

    if (!held)
        return 1;
    held->qp = qp;
    held->wr = *wr;
    if (wr->num_sge)
        held->piece = wr->sg_list[0];
    held->wr.sg_list = &held->piece;
    *end = held;
    end = &held->next;
    if (wr->opcode == FANIN_SEND_RDMA_WRITE_WITH_IMM)
        say("holds");
    return 0;
}

/* The device posts one request at a time. */
static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int refused;

    pthread_mutex_lock(&lock);
    if (wr->opcode == FANIN_SEND_RDMA_READ || (!first && !holds()))
        refused = post_of_library(qp, wr, bad);
    else
        refused = hold(qp, wr);
    pthread_mutex_unlock(&lock);
    return refused;
}

static void let_go(void)
{
    struct ibv_send_wr *bad;

    while (first) {
        struct held_write *held = first;
        first = held->next;
        if (post_of_library(held->qp, &held->wr, &bad))
            abort();
        free(held);
    }
    end = &first;
    say("gone");
}

static void *look(void *nothing)
{
    for (;;) {
        usleep(LOOK_US);
        pthread_mutex_lock(&lock);
        if (first && !holds())
            let_go();
        pthread_mutex_unlock(&lock);
    }
    return nothing;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*of_library)(struct ibv_qp *) = dlsym(RTLD_NEXT, __func__);
    int waits;

    do {
        pthread_mutex_lock(&lock);
        waits = first != NULL;
        pthread_mutex_unlock(&lock);
        if (waits)
            usleep(LOOK_US);
    } while (waits);
    return of_library(qp);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*of_library)(struct ibv_device *) = dlsym(RTLD_NEXT, __func__);
    struct ibv_context *context = of_library(device);
    pthread_t thread;

    if (context) {
        post_of_library = context->ops.post_send;
        context->ops.post_send = post;
    }
    if (context && !has_thread)
        has_thread = !pthread_create(&thread, NULL, look, NULL);
    return context;
}
