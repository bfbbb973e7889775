/* SEND, WRITE and READ between two NICs by fanin.h. A thread receives while the program sends. Arguments: the sockets
 * of two devices. Prints "right". */
#include <fanin/fanin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2, DOMAIN = 7, MESSAGES = 500, WORDS = 5000, BYTES = WORDS * 4, PLACES = 16, WAIT_MS = 60000 };

struct side {
    struct fanin_context *device;
    uint32_t cq, qp, qpn, key;
    uint32_t *memory; /* PLACES buffers, then one for the other side to write */
};

static const uint32_t rights = FANIN_ACCESS_READ | FANIN_ACCESS_WRITE | FANIN_ACCESS_REMOTE_WRITE |
                               FANIN_ACCESS_REMOTE_READ;

static void check(enum fanin_status status, const char *what)
{
    if (status == FANIN_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, fanin_status_name(status), fanin_complaint());
    exit(1);
}

static void open_side(struct side *side, const char *socket)
{
    struct fanin_qp_init init = {.service = FANIN_SERVICE_RC, .domain = DOMAIN, .all_signaled = 1};

    check(fanin_open(socket, &side->device), "open");
    check(fanin_create_cq(side->device, &side->cq), "create a completion queue");
    check(fanin_allocate_ordinary(side->device, (PLACES + 1) * BYTES, rights, DOMAIN, (void **)&side->memory,
                                  &side->key), "allocate");
    init.send_cq = init.receive_cq = side->cq;
    check(fanin_create_ordinary_qp(side->device, &init, &side->qp, &side->qpn), "create a queue pair");
}

static void connect_side(const struct side *side, const struct side *other)
{
    struct fanin_qp_attributes attributes = {
        .access = FANIN_ACCESS_REMOTE_WRITE | FANIN_ACCESS_REMOTE_READ, .port = 1,
        .destination = fanin_limits(other->device)->address, .remote_qpn = other->qpn, .path_mtu = 1024,
        .most_reads = 1, .most_responses = 1, .rnr_timer = 12, .timeout = 14, .retry_count = 7, .rnr_retry = 7};
    const uint32_t masks[] = {
        [FANIN_QP_INIT] = FANIN_ATTR_STATE | FANIN_ATTR_PKEY_INDEX | FANIN_ATTR_PORT | FANIN_ATTR_ACCESS_FLAGS,
        [FANIN_QP_RTR] = FANIN_ATTR_STATE | FANIN_ATTR_AV | FANIN_ATTR_PATH_MTU | FANIN_ATTR_DEST_QPN |
                         FANIN_ATTR_RQ_PSN | FANIN_ATTR_MAX_DEST_RD_ATOMIC | FANIN_ATTR_MIN_RNR_TIMER,
        [FANIN_QP_RTS] = FANIN_ATTR_STATE | FANIN_ATTR_TIMEOUT | FANIN_ATTR_RETRY_CNT | FANIN_ATTR_RNR_RETRY |
                         FANIN_ATTR_SQ_PSN | FANIN_ATTR_MAX_QP_RD_ATOMIC};

    for (uint32_t state = FANIN_QP_INIT; state <= FANIN_QP_RTS; state++) {
        attributes.state = state;
        attributes.mask = masks[state];
        check(fanin_modify_ordinary_qp(side->device, side->qp, &attributes), "modify");
    }
}

/* The next completion, with success. */
static uint64_t complete(const struct side *side)
{
    const struct fanin_wc *wc;
    struct fanin_cqe cqe;
    uint32_t count, seen;

    check(fanin_poll(side->device, side->cq, &cqe, 1, &count, &seen), "poll");
    while (!count) {
        check(fanin_wait_cq(side->device, side->cq, seen, WAIT_MS), "wait");
        check(fanin_poll(side->device, side->cq, &cqe, 1, &count, &seen), "poll");
    }
    wc = fanin_wc_of(&cqe);
    if (wc && wc->status == FANIN_WC_SUCCESS && wc->qpn == side->qpn)
        return wc->wr_id;
    fprintf(stderr, "a completion with status %d\n", wc ? wc->status : -1);
    exit(1);
}

static struct fanin_sge piece(const struct side *side, uint32_t place, uint32_t length)
{
    return (struct fanin_sge){
        .address = (uintptr_t)side->memory + (uint64_t)place * BYTES, .length = length, .lkey = side->key};
}

static void post_receive(const struct side *side, uint32_t message)
{
    struct fanin_receive_wqe wqe = {.wr_id = message, .sge_count = 1};

    wqe.sge[0] = piece(side, message % PLACES, BYTES);
    check(fanin_post_receive(side->device, side->qp, &wqe), "post a receive request");
}

/* Message m has m % WORDS + 1 words: m, m + 1, ... */
static uint32_t bytes_of(uint32_t message)
{
    return (message % WORDS + 1) * 4;
}

static void *receive_all(void *argument)
{
    const struct side *side = argument;

    for (uint32_t message = 0; message < MESSAGES; message++) {
        const uint32_t *words = side->memory + message % PLACES * WORDS;

        if (complete(side) != message)
            check(FANIN_OP_MISMATCH, "the order of the messages");
        for (uint32_t i = 0; i < bytes_of(message) / 4; i++)
            if (words[i] != message + i)
                check(FANIN_OP_MISMATCH, "the data of a message");
        if (message + PLACES < MESSAGES)
            post_receive(side, message + PLACES);
    }
    return NULL;
}

static void send_all(const struct side *side)
{
    for (uint32_t message = 0; message < MESSAGES; message++) {
        struct fanin_send_wqe wqe = {.wr_id = message, .opcode = FANIN_SEND_SEND, .sge_count = 1};

        for (uint32_t i = 0; i < bytes_of(message) / 4; i++)
            side->memory[i] = message + i;
        wqe.sge[0] = piece(side, 0, bytes_of(message));
        check(fanin_post_send(side->device, side->qp, &wqe), "post a SEND");
        if (complete(side) != message)
            check(FANIN_OP_MISMATCH, "the order of the completions");
    }
}

/* WRITE buffer 1 into the last one of the other side, and READ it back into buffer 2, with one post, which posts all or
 * none. */
static void write_and_read(const struct side *side, const struct side *other)
{
    static struct fanin_send_wqe too_many[FANIN_ORDINARY_DEPTH + 1];
    static const uint8_t opcodes[] = {FANIN_SEND_RDMA_WRITE, FANIN_SEND_RDMA_READ};
    struct fanin_send_wqe wqes[2];

    for (uint32_t i = 0; i < WORDS; i++)
        side->memory[WORDS + i] = 3 * i;
    for (uint32_t step = 0; step < 2; step++) {
        wqes[step] = (struct fanin_send_wqe){.wr_id = step, .opcode = opcodes[step], .rkey = other->key,
                                             .remote_address = piece(other, PLACES, BYTES).address};
        wqes[step].sge[0] = piece(side, 1 + step, BYTES);
    }
    wqes[0].sge_count = 1;
    wqes[1].sge_count = FANIN_MAX_SGE + 1;
    if (fanin_post_sends(side->device, side->qp, wqes, 2) != FANIN_INVALID_REQUEST ||
        fanin_post_sends(side->device, side->qp, too_many, FANIN_ORDINARY_DEPTH + 1) != FANIN_QUEUE_FULL)
        check(FANIN_OP_MISMATCH, "what is refused");
    wqes[1].sge_count = 1;
    check(fanin_post_sends(side->device, side->qp, wqes, 2), "post a WRITE and a READ");
    for (uint64_t step = 0; step < 2; step++)
        if (complete(side) != step)
            check(FANIN_OP_MISMATCH, "the order of the completions of WRITE and READ");
    if (fanin_device_is_lost(side->device))
        check(FANIN_DEVICE_LOST, "the device");
    if (memcmp(&side->memory[WORDS], &other->memory[PLACES * WORDS], BYTES) ||
        memcmp(&side->memory[WORDS], &side->memory[2 * WORDS], BYTES))
        check(FANIN_OP_MISMATCH, "the data of WRITE and READ");
}

int main(int count, char **arguments)
{
    struct side sides[SIDES];
    pthread_t receiver;

    if (count != 1 + SIDES)
        return 1;
    for (int number = 0; number < SIDES; number++)
        open_side(&sides[number], arguments[1 + number]);
    for (int number = 0; number < SIDES; number++)
        connect_side(&sides[number], &sides[1 - number]);
    for (uint32_t message = 0; message < PLACES; message++)
        post_receive(&sides[1], message);
    if (pthread_create(&receiver, NULL, receive_all, &sides[1]))
        return 1;
    send_all(&sides[0]);
    pthread_join(receiver, NULL);
    write_and_read(&sides[0], &sides[1]);
    for (int number = 0; number < SIDES; number++) {
        check(fanin_destroy_ordinary_qp(sides[number].device, sides[number].qp), "destroy");
        check(fanin_deregister(sides[number].device, sides[number].key), "deregister");
        fanin_unmap(sides[number].memory, (PLACES + 1) * BYTES);
        fanin_close(sides[number].device);
    }
    puts("right");
    return 0;
}
