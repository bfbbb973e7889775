/* libfanin: collective communication in the network devices, for programs in C.
 *
 * There are two interfaces. Most programs use the upper one: open a device, join a job as one of its ranks, and call
 * collectives on the communicator. The lower one has queue pairs, completion queues and work requests, as verbs have.
 *
 *     struct fanin_context *device;
 *     struct fanin_communicator *communicator;
 *     fanin_open("/run/fanin/nic0/control.sock", &device);
 *     fanin_join(device, &job, rank, 60000, &communicator);
 *     fanin_allreduce(communicator, data, data, count, FANIN_DTYPE_F32, FANIN_OP_SUM);
 *     fanin_leave(communicator, 10000);
 *     fanin_close(device);
 *
 * Every function that can fail returns enum fanin_status: FANIN_SUCCESS is 0, and fanin_status_name,
 * fanin_status_meaning and fanin_status_remedy explain the others. A function writes its output arguments when it
 * succeeds, or where its comment says so. Times are milliseconds of a clock that never goes back.
 *
 * Threads may share everything here, but nothing may be closed while another thread uses it. A forked child must not
 * use what its parent has opened; it calls fanin_close_inherited and opens its own.
 *
 * cffi reads the declarations of this file: there are no macros and no inline functions.
 */
#ifndef FANIN_H
#define FANIN_H
#include "abi.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* ---- Status ---- */

/* "PEER_LOST" for FANIN_PEER_LOST; "UNKNOWN" for a code that this version does not know. Likewise what the status
 * means, and what to do about it, each in a sentence. Never NULL. */
const char *fanin_status_name(enum fanin_status status);
const char *fanin_status_meaning(enum fanin_status status);
const char *fanin_status_remedy(enum fanin_status status);

/* Why the last call of this thread was refused that returned FANIN_INVALID_REQUEST, FANIN_NOT_SUPPORTED or
 * FANIN_NO_DEVICE, or a shrink that returned FANIN_TIMEOUT: what was wrong here, without a full stop. Of a request or a
 * join that has failed: whom it names, as fanin_name_members says it. Empty if no call was. Of FANIN_NO_RESOURCES it
 * may say more. Never NULL. */
const char *fanin_complaint(void);

/* No function takes NULL where this page asks for an object, but fanin_free and fanin_close: they do nothing then. */

/* Milliseconds by the clock of all time-outs here. */
uint64_t fanin_now_ms(void);

/* ---- Devices ---- */

struct fanin_context;         /* a connection to one device */

/* Connect to the device whose control socket is at `socket_path`, and attach to it: exchange rings and memory.
 * A path rdma://[VERBS-DEVICE@]ADDRESS:PORT is that of a device on another host, which is reached by RDMA.
 * NULL: the path is in the environment variable FANIN_SOCKET.
 * FANIN_NO_DEVICE: nobody answers there. FANIN_VERSION_MISMATCH: it speaks another version of this interface. */
enum fanin_status fanin_open(const char *socket_path, struct fanin_context **context);

/* The first half of fanin_open. It is enough for fanin_read_status; everything else needs fanin_attach. */
enum fanin_status fanin_connect(const char *socket_path, struct fanin_context **context);
enum fanin_status fanin_attach(struct fanin_context *context, struct fanin_attach_reply *limits);

/* What the device allows this process: the reply of fanin_attach. */
const struct fanin_attach_reply *fanin_limits(const struct fanin_context *context);

/* Version of the host interface that the device speaks, as its last reply says; 0: it has not answered. */
uint32_t fanin_device_version(const struct fanin_context *context);

/* Whether the device is lost: it has ended, or it stands still. */
int fanin_device_is_lost(struct fanin_context *context);

/* Whether the device was lost because it stands still. It may go on later, and write to memory of requests under
 * way; not over RDMA, where nothing of it reaches memory any more. If there neither the queue pair nor the memory can
 * be given back to the verbs device, the device counts as one that stands still. */
int fanin_device_stands_still(const struct fanin_context *context);

/* The device's status as JSON (UTF-8, no terminator). `length` is set also when `capacity` is too small. */
enum fanin_status fanin_read_status(struct fanin_context *context, char *json, size_t capacity, size_t *length);

/* Give everything back. Leave all jobs first. Else it waits for up to 10 s until all ranks have what this one has
 * brought, and leaves the jobs in which this rank has nothing under way; others get FANIN_PEER_LOST in the rest. */
void fanin_close(struct fanin_context *context);

/* In a forked child: drop the copy of a connection that the parent has opened, and forget its communicators. Sends
 * nothing. */
void fanin_close_inherited(struct fanin_context *context);

/* ---- Memory ----
 *
 * A device reads and writes registered memory in place. It reaches other memory of the process by system calls, or the
 * library copies it through bounce buffers, whichever is faster. A collective finds out by itself which memory is
 * registered. The same memory may be registered with several devices. */

/* Register `length` bytes at `address`, which are the bytes from `offset` of a memfd sealed against shrinking. */
enum fanin_status fanin_register(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                 uint64_t length, uint32_t access, uint32_t *lkey);
enum fanin_status fanin_deregister(struct fanin_context *context, uint32_t lkey);

/* New zeroed memory that is registered: a sealed memfd, mapped. */
enum fanin_status fanin_allocate(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                 uint32_t *lkey);

/* The same, and the memfd, to register the memory with further devices. The caller closes `memfd`. */
enum fanin_status fanin_allocate_shared(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                        uint32_t *lkey, int *memfd);

/* Unmap what fanin_allocate mapped. Deregister it first; needs no context, so memory may outlive the device. */
void fanin_unmap(void *address, uint64_t length);

/* Key of the registered region that holds all these bytes; FANIN_LKEY_PROCESS if there is none. */
uint32_t fanin_lkey_of(struct fanin_context *context, const void *address, uint64_t length);

/* Borrow a bounce buffer of `length` bytes: registered memory, uninitialised, often still in the caches. NULL: too
 * long, or the library has no more. Return it when the device is done with it. */
void *fanin_borrow(struct fanin_context *context, uint64_t length);
void fanin_return(struct fanin_context *context, void *memory);

/* ---- Jobs ---- */

enum fanin_job_limit { FANIN_ROUTE_AUTO = 255 };

/* Where one rank is: the NIC of its node, and what lies above it. */
struct fanin_place {
    uint32_t address;         /* IPv4 of the NIC, host order */
    uint32_t ring;            /* nodes with the same number hang on a plain switch and form a ring; 0: none */
    uint32_t hops;            /* offloading switches above the node */
    uint32_t hop[8];          /* their IPv4 addresses, lowest first */
};

/* The ranks that communicate, and how. All of them give the same description. */
struct fanin_job {
    uint32_t jid;             /* job id, other than 0, that no other job of these devices has */
    uint32_t key;             /* random: keeps packets of other jobs out */
    uint32_t route;           /* enum fanin_route, or FANIN_ROUTE_AUTO */
    uint32_t chunk;           /* bytes of payload of a segment: a power of two; 0: the longest that the path takes */
    uint32_t slots;           /* seg buffers asked of each device: a power of two; 0: a default */
    uint32_t flags;           /* enum fanin_job_flags, or-ed */
    uint32_t ranks;
    uint32_t reserved;
    const struct fanin_place *places; /* one for each rank */
};

struct fanin_communicator;    /* this process as one rank of one job */

/* Read the job that a file describes, as `fanin run` writes it: docs/collectives.md has the format. `places` of the job
 * is allocated; free it with free(). FANIN_INVALID_REQUEST: the file can not be read, or makes no sense;
 * fanin_complaint names line and word, and nothing is allocated. */
enum fanin_status fanin_job_of_file(const char *path, struct fanin_job *job);

/* The same of the file that $FANIN_JOB names, and this process's rank, $FANIN_RANK. `fanin run` sets both. */
enum fanin_status fanin_job_of_environment(struct fanin_job *job, uint32_t *rank);

/* In which order devices add floating-point numbers where a program does not choose: flags of a job. In that of the
 * ranks (FANIN_JOB_REPRODUCIBLE_RUN), so the same call gives the same bits each time; with FANIN_ORDER=arrival as the
 * data come. FANIN_INVALID_REQUEST: FANIN_ORDER is another word; `flags` are those of the order of the ranks. */
enum fanin_status fanin_order_of_environment(uint32_t *flags);

/* Read a place as it stands in such a file: "ADDRESS RING SWITCH...", up to the end or a '#'. The address may be
 * 0.0.0.0, if it is not known yet. FANIN_INVALID_REQUEST: as above. */
enum fanin_status fanin_place_of_text(const char *text, struct fanin_place *place);

enum fanin_nic_limit { FANIN_MAX_NICS = 64 };

/* A NIC, by its control socket, and what lies above it; where that is not known, `place` is all 0. */
struct fanin_nic {
    char socket[256];
    struct fanin_place place;
};

/* The NICs of this host (or network namespace), by their addresses: of those whose sockets the environment variable
 * FANIN_SOCKET names, with ':' between, or else of the fabric `default` that `fanin fabric up` has brought up. A NIC
 * whose address is not known is one of this host; and if all that FANIN_SOCKET names are elsewhere, they are taken all
 * the same. Returns how many there are; `elsewhere`: how many were left out. Whether they answer is not looked at. */
uint32_t fanin_find_nics(struct fanin_nic nics[FANIN_MAX_NICS], uint32_t *elsewhere);

/* The fabrics of this machine that `fanin fabric up` has brought up for this user, with the FANIN_SOCKET of each, in
 * words: for a process that finds no NIC. They are looked for where a login session has its state as well, and where a
 * process without one has it. Empty: there are none. Those for which `words` has no room are left out. */
void fanin_name_fabrics(char *words, size_t capacity);

/* What rank `rank` tells its device when it joins. FANIN_INVALID_REQUEST, on all ranks alike: the places make no
 * job. */
enum fanin_status fanin_describe(const struct fanin_job *job, uint32_t rank, struct fanin_join *join);

/* Which ranks a completion names as missing, by its `missing` and `missing_kind`, as rank `rank` sees them. Devices
 * beyond its own node name nodes, or all that is below a switch: then these are all ranks there. `ranks` has room
 * for all ranks of the job. Returns how many there are. */
uint32_t fanin_missing_ranks(const struct fanin_job *job, uint32_t rank, uint64_t missing, uint32_t kind,
                             uint32_t *ranks);

/* The same in words, for people: "missing: rank 2 (node 10.0.0.2)"; of FANIN_OP_MISMATCH "noticed at: ..." and the
 * ranks whose call differs from what came before; of FANIN_PEER_LOST first the switch or NIC that does not answer, if
 * the completion names it. Of `cqe` only status, missing, missing_kind and lost_device are looked at. Empty: it names
 * nobody. Of many ranks the first are named. `words` has room for `capacity` bytes, one or more. */
void fanin_name_members(const struct fanin_job *job, uint32_t rank, const struct fanin_cqe *cqe, char *words,
                        size_t capacity);

/* The way of a job as rank `rank` sees it, in words, for logs: route, NICs, switches, segments of `chunk` bytes, and
 * the MTU of this rank's NIC. A ring that was not asked for says why it is none of a tree. chunk, mtu: 0 where they are
 * not known. Of many NICs the first are named. Empty: the places make no job. */
void fanin_name_path(const struct fanin_job *job, uint32_t rank, uint32_t chunk, uint32_t mtu, char *words,
                     size_t capacity);

/* The same of a job that this process has joined. */
void fanin_name_path_of(const struct fanin_communicator *communicator, char *words, size_t capacity);

/* Join a job as one of its ranks. Returns when all ranks have joined, or FANIN_TIMEOUT after `timeout_ms`. Each rank
 * joins a job once: make another job, with another id or key, to join again. */
enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                             uint32_t timeout_ms, struct fanin_communicator **communicator);

/* A communicator of the same ranks: another stream, whose collectives do not wait for this one's. slots: of its lease;
 * 0: as this one has. All ranks call it. */
enum fanin_status fanin_dup(struct fanin_communicator *communicator, uint32_t slots, uint32_t timeout_ms,
                            struct fanin_communicator **made);

/* A communicator of the ranks that give the same `color`, ordered by `key` and among equal keys by rank. A negative
 * color: this rank is in none, and `made` becomes NULL. All ranks call it. */
enum fanin_status fanin_split(struct fanin_communicator *communicator, int64_t color, int64_t key, uint32_t timeout_ms,
                              struct fanin_communicator **made);

/* A communicator of the ranks that are left after FANIN_PEER_LOST, in the same order; it may have been told in another
 * communicator of these ranks. All that are left call this, and agree on the survivors: a rank that has not called
 * within `timeout_ms` is none. If a switch is lost, the new job goes round a ring of the NICs that are left.
 * FANIN_PEER_LOST, FANIN_TIMEOUT: another rank was lost meanwhile; all call it again. FANIN_DEVICE_LOST: the device of
 * this rank is gone, so this rank is one of the lost. This communicator is still to be left. */
enum fanin_status fanin_shrink(struct fanin_communicator *communicator, uint32_t timeout_ms,
                               struct fanin_communicator **made);

/* A process that is to join a job, and its rank there. */
struct fanin_newcomer {
    uint32_t rank;            /* in the new job */
    uint32_t reserved;
    struct fanin_place place;
};

/* A communicator of the ranks of this one, and of newcomers: a newcomer gets the rank that it names, and the others
 * keep their order around the newcomers. All ranks call it, with the same newcomers. A newcomer calls fanin_join,
 * with the job that fanin_job_of tells of a communicator that fanin_begin_grow has begun to make; somebody hands it
 * that job and its rank. After fanin_shrink, newcomers at the ranks of the lost ones take their places.
 * FANIN_TIMEOUT: a newcomer or a rank has not come. FANIN_MEMBERS_MISMATCH: ranks have given other newcomers. This
 * communicator goes on. */
enum fanin_status fanin_grow(struct fanin_communicator *communicator, const struct fanin_newcomer *newcomers,
                             uint32_t count, uint32_t timeout_ms, struct fanin_communicator **made);

/* The same in steps, for programs that do something else meanwhile. Each begins to make a communicator, of which only
 * fanin_finish_join, fanin_job_of and fanin_abandon may be called until the first has succeeded. */
enum fanin_status fanin_begin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                                   struct fanin_communicator **communicator);
enum fanin_status fanin_begin_dup(struct fanin_communicator *communicator, uint32_t slots,
                                  struct fanin_communicator **made);
enum fanin_status fanin_begin_shrink(struct fanin_communicator *communicator, uint32_t timeout_ms,
                                     struct fanin_communicator **made);

enum fanin_status fanin_begin_grow(struct fanin_communicator *communicator, const struct fanin_newcomer *newcomers,
                                   uint32_t count, struct fanin_communicator **made);

/* What a rank says in a split. */
struct fanin_choice {
    int64_t color, key;
};
/* choices: of all ranks, which have exchanged them. */
enum fanin_status fanin_begin_split(struct fanin_communicator *communicator, const struct fanin_choice *choices,
                                    struct fanin_communicator **made);

/* Wait for about `timeout_ms`. FANIN_PENDING: not all ranks have joined yet. `reply` holds what is known, also on
 * refusal: who is missing of the job that is joined, or what would fit. After any status but FANIN_PENDING and
 * FANIN_SUCCESS call fanin_abandon. */
enum fanin_status fanin_finish_join(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms);

/* The job of a communicator; while fanin_begin_shrink goes on, the one that has lost a rank. It lives as long as the
 * communicator, but for that one: it ends with the fanin_finish_join that begins to join the survivors' job. */
const struct fanin_job *fanin_job_of(const struct fanin_communicator *communicator);

/* Wait at most `timeout_ms` until all ranks have what this rank has brought to requests that have ended here already
 * (see fanin_start). FANIN_PENDING: they do not have it yet. Any other status but FANIN_SUCCESS: what such a request
 * has failed with, unless another request has told it. It is told once; `ended` in fanin_communicator_state has the
 * rest. */
enum fanin_status fanin_flush(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* Leave the job, and free the communicator. Before that, wait as fanin_flush does. Requests under way end with
 * FANIN_FLUSHED; each request, persistent ones included, is still to be freed. The other ranks get FANIN_ABORTED for
 * what they have under way. FANIN_SUCCESS: the device touches no memory any more on behalf of this job. Otherwise it
 * may still write to the memory of requests that were under way; the communicator is freed all the same. */
enum fanin_status fanin_leave(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* The same without leaving the job: the other ranks get FANIN_PEER_LOST instead of waiting. */
enum fanin_status fanin_abandon(struct fanin_communicator *communicator);

/* fanin_leave in steps. Returns at once; nothing may be started any more. What is under way goes on. */
void fanin_begin_leave(struct fanin_communicator *communicator);
/* Wait at most `timeout_ms` until what is under way has ended and the device has confirmed the leave. FANIN_PENDING:
 * not yet. After any other status the communicator is freed. */
enum fanin_status fanin_finish_leave(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* End the job for all its ranks: what is under way here and what is started later ends with `status`. The communicator
 * is still to be left. */
void fanin_end_job(struct fanin_communicator *communicator, enum fanin_status status);

uint32_t fanin_rank(const struct fanin_communicator *communicator);
uint32_t fanin_size(const struct fanin_communicator *communicator);

/* What is fixed for the life of a communicator, and what it has done. */
struct fanin_communicator_state {
    uint32_t jid, slots, window, chunk; /* of the lease: seg buffers, positions in flight, payload bytes of a segment */
    uint32_t qp, cq;
    uint64_t posted;          /* requests, ever */
    uint64_t outstanding;     /* requests of which something is under way */
    uint64_t backlog;         /* requests that wait for room, or for sizes */
    struct fanin_cqe ended;   /* status FANIN_SUCCESS: the job goes on. Else the completion that told of its end, or
                               * only a status and the jid where none did: the device is lost, for instance */
    uint64_t ended_number;    /* fanin_number of the request of `ended`; 0 where there is none */
};
void fanin_communicator_state(struct fanin_communicator *communicator, struct fanin_communicator_state *state);

/* ---- Collectives ---- */

enum fanin_collective {
    FANIN_ALLREDUCE = 0,
    FANIN_REDUCE = 1,
    FANIN_REDUCE_SCATTER = 2,
    FANIN_BROADCAST = 3,
    FANIN_ALLGATHER = 4,
    FANIN_GATHER = 5,
    FANIN_SCATTER = 6,
    FANIN_BARRIER = 7,
    FANIN_ALLGATHERV = 8,
    FANIN_GATHERV = 9,
    FANIN_SCATTERV = 10
};

enum fanin_operation_flags {
    /* It begins when all that was started before on this communicator is complete, so that their results can be its
     * input. */
    FANIN_FENCE = 1,
    /* Every rank makes this call and waits in it at once (blocking, as MPI's blocking collectives are): then long
     * messages of several blocks are cut as well, and the copies of parts overlap with their transfer. */
    FANIN_ALL_BLOCK = 2,
    /* Not all ranks know the sizes of the v-forms: they are exchanged first. Allgatherv and gatherv: each rank gives
     * `block`, the bytes that it brings. Scatterv: the root gives `sizes`. The other fields of sizes are expectations,
     * which are checked: `sizes` where it is given, and of scatterv `block` on ranks other than the root, unless it is
     * FANIN_ANY_SIZE. All ranks set this flag, or none does. */
    FANIN_EXCHANGE_SIZES = 4
};

/* One collective, as one rank takes part in it. Result and data may share memory block on block (in place), since a
 * segment of the result is written when its data have been read; any other overlap is FANIN_INVALID_REQUEST. All
 * ranks give the same collective, root, op, dtype, tag and sizes; otherwise they get FANIN_OP_MISMATCH. A message
 * consists of one block (allreduce, reduce, broadcast), of one for each rank (the others), or of none (barrier).
 * source and destination are memory without gaps. */
struct fanin_operation {
    uint32_t collective;      /* enum fanin_collective */
    uint32_t root;            /* of reduce, broadcast, gather, scatter and their v-forms; else not looked at */
    uint32_t op;              /* enum fanin_op; NONE where nothing is computed */
    uint32_t dtype;           /* enum fanin_dtype; of an operation that only moves data it may be NONE */
    uint32_t flags;           /* enum fanin_operation_flags, or-ed */
    uint32_t tag;             /* anything that the ranks are to agree on besides; 0 */
    uint32_t timeout_ms;      /* for all ranks to take part; 0: no limit */
    uint32_t reserved;
    uint64_t block;           /* bytes of each block, where `sizes` is NULL */
    const uint64_t *sizes;    /* bytes of each rank's block, read before the start returns; NULL: all have `block` */
    const void *source;       /* what this rank brings; not read if it brings nothing */
    void *destination;        /* where it wants the result; not used if it wants none. NULL: what comes is discarded;
                               * but if sizes are exchanged, the library keeps it, and fanin_result says where it is */
};

enum fanin_request_limit { FANIN_ANY_SIZE = -1 };

struct fanin_request;         /* a collective under way, or a persistent one */

/* Start a collective and return at once. Any number may be under way; they run in the order of their starts. Its
 * buffers must not be touched before it has ended. fanin_free frees the request.
 *
 * A request of a rank that wants no result (the root of a broadcast, the others of a reduce) ends when its data have
 * been taken: when they are in the work request, or in memory of the library. So it may end before the other ranks take
 * part. This holds for data of up to 16 bytes, and for data that are not in registered memory; not with `timeout_ms`,
 * with FANIN_FENCE, or of a persistent request. If it fails after that, the next request fails, too, and fanin_flush
 * says why. A receiver's request may end before the other ranks take part, too, if the data come from its own node.
 * Leave the job, or close the device, before the program ends: else the job ends for ranks that come later.
 */
enum fanin_status fanin_start(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                              struct fanin_request **request);

/* Make a persistent request, to be started any number of times, with what the buffers hold then. FANIN_EXCHANGE_SIZES
 * is not possible: FANIN_NOT_SUPPORTED. */
enum fanin_status fanin_prepare(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                                struct fanin_request **request);
/* Start it (again). It takes its place in the order of the communicator, as fanin_start does; a communicator of its own
 * (fanin_dup) frees it from that order. FANIN_INVALID_REQUEST: the last start is still under way, the request is not
 * persistent, or the job has been left. */
enum fanin_status fanin_restart(struct fanin_request *request);

/* Wait at most `timeout_ms` for a request. FANIN_PENDING: it is still under way; else its outcome, also when asked
 * again. While it waits it looks after the other communicators of this process. */
enum fanin_status fanin_wait(struct fanin_request *request, uint32_t timeout_ms);

/* The same without waiting. */
enum fanin_status fanin_test(struct fanin_request *request);

/* Start a collective and wait for its end. If `timeout_ms` pass before, FANIN_PENDING: `request` becomes the
 * request, which is to be waited for and freed. If it was started and has failed, `request` becomes that as well,
 * for fanin_failure; it is to be freed. If it was refused, or has ended well, it becomes NULL. request NULL:
 * `timeout_ms` is not looked at, and only the operation has a limit. */
enum fanin_status fanin_call(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                             uint32_t timeout_ms, struct fanin_request **request);

/* How far a request is, as its device says. */
struct fanin_request_progress {
    uint64_t done;            /* segments whose results are where they belong */
    uint64_t segments;        /* of all its messages; 0: not known yet, the sizes are still exchanged */
    uint64_t missing;         /* bitmap of who the first incomplete segment waits for, as in a CQE */
    uint32_t missing_kind;
    uint32_t reserved;
};
/* FANIN_TIMEOUT: the device does not answer. FANIN_QUEUE_FULL: it has too many questions to answer. */
enum fanin_status fanin_query(struct fanin_request *request, struct fanin_request_progress *progress);

/* Of a request that has ended: the completion that told of its failure; all zero but the status where none did. */
void fanin_failure(const struct fanin_request *request, struct fanin_cqe *cqe);

/* Of a request that was started last: how many were started before it on its communicator, the internal ones of
 * fanin_split included. It is equal on all ranks. A long message has one number, but a `mid` for each of its parts. */
uint64_t fanin_number(const struct fanin_request *request);

/* Of a request that has ended well: where its result is, its bytes, and the sizes of the blocks (one for each rank;
 * NULL: all are equal). They live until the request is freed or the device closed. */
void fanin_result(const struct fanin_request *request, void **address, uint64_t *length, const uint64_t **sizes);

/* Free a request that has ended, or a persistent one that is not under way. One that is under way is freed when it has
 * ended; then its buffers must live until its communicator is left. */
void fanin_free(struct fanin_request *request);

/* Let every communicator of this process take completions, and post what has waited for room. Never blocks. */
void fanin_progress(void);

/* Whether something waits to be posted, for room or for sizes, in this communicator; in any other than this one (NULL:
 * in any). */
int fanin_has_backlog(struct fanin_communicator *communicator);
int fanin_others_have_backlog(struct fanin_communicator *communicator);

/* Segments, and so positions of the job's stream, that an operation takes on this communicator. */
uint64_t fanin_segments_of(struct fanin_communicator *communicator, const struct fanin_operation *operation);

/* Whether devices compute `op` over `dtype`, by their codes. */
int fanin_is_supported(uint32_t op, uint32_t dtype);
/* Bytes of an element; 0: there is no such type. */
uint32_t fanin_dtype_bytes(uint32_t dtype);
/* "f32" for FANIN_DTYPE_F32, "sum" for FANIN_OP_SUM; "" where there is none. Never NULL. */
const char *fanin_dtype_name(uint32_t dtype);
const char *fanin_op_name(uint32_t op);

/* ---- Collectives in short: blocking, without limits of time ----
 *
 * When one has failed with the job, fanin_communicator_state says by which completion (`ended`), and
 * fanin_missing_ranks which ranks that names. */

/* `count`: elements that each rank brings. */
enum fanin_status fanin_allreduce(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t count, enum fanin_dtype dtype, enum fanin_op op);
enum fanin_status fanin_reduce(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t count, enum fanin_dtype dtype, enum fanin_op op, uint32_t root);
/* `count`: elements that each rank gets. */
enum fanin_status fanin_reduce_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                       uint64_t count, enum fanin_dtype dtype, enum fanin_op op);
/* `length`: bytes of the memory, or of each rank's block. */
enum fanin_status fanin_broadcast(struct fanin_communicator *communicator, void *memory, uint64_t length,
                                  uint32_t root);
enum fanin_status fanin_allgather(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t length);
enum fanin_status fanin_gather(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t length, uint32_t root);
enum fanin_status fanin_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                uint64_t length, uint32_t root);
enum fanin_status fanin_barrier(struct fanin_communicator *communicator);

/* ---- The lower interface: queues and work requests ---- */

/* Where a queue pair stands in its job's stream of segments; equal on all ranks. */
struct fanin_cursor {
    uint32_t position;        /* the next free one */
    uint32_t mid;             /* the count in the next message number */
    uint32_t slots;           /* of the lease; 0: none is needed */
    uint32_t reserved;
};

struct fanin_membership_request; /* a JOIN or LEAVE of a queue pair under way */

enum fanin_status fanin_create_cq(struct fanin_context *context, uint32_t *cq);
enum fanin_status fanin_destroy_cq(struct fanin_context *context, uint32_t cq);
enum fanin_status fanin_create_qp(struct fanin_context *context, uint32_t cq, uint32_t *qp);
/* When it returns FANIN_SUCCESS the device touches no memory any more on behalf of this queue pair. FANIN_PENDING: the
 * queue pair is no more, but its results may still come, over RDMA; fanin_await_results waits for them. */
enum fanin_status fanin_destroy_qp(struct fanin_context *context, uint32_t qp);
/* Wait until all results of queue pairs that were destroyed, or have left, are here. FANIN_PENDING: not yet. */
enum fanin_status fanin_await_results(struct fanin_context *context, uint32_t timeout_ms);

/* Start to join (leave) the job with a queue pair; head fields are filled in here. fanin_await_membership tells the
 * outcome, fanin_forget_membership frees the request. */
enum fanin_status fanin_join_qp(struct fanin_context *context, const struct fanin_join *join,
                                struct fanin_membership_request **request);
enum fanin_status fanin_leave_qp(struct fanin_context *context, uint32_t qp, struct fanin_membership_request **request);

/* Wait for the outcome, at most `timeout_ms`. FANIN_PENDING: not yet. `reply` holds what is known, also on refusal. */
enum fanin_status fanin_await_membership(struct fanin_membership_request *request, struct fanin_join_reply *reply,
                                         uint32_t timeout_ms);
void fanin_forget_membership(struct fanin_membership_request *request);

/* Whether the device would take a request of a queue pair that has joined by `join`, with the outcome `lease`, and
 * stands at `cursor`. Otherwise the status with which the device would end the job; fanin_complaint says why. The
 * program then corrects the request, and posts it. */
enum fanin_status fanin_check_request(const struct fanin_join *join, const struct fanin_join_reply *lease,
                                      const struct fanin_cursor *cursor, const struct fanin_wqe *wqe);

/* Copy a WQE into the send ring and ring the doorbell. FANIN_QUEUE_FULL: the device has not taken enough yet. */
enum fanin_status fanin_post(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe);

/* The same for a request of a job's stream; when it is posted, the cursor has moved past it. */
enum fanin_status fanin_post_next(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                                  const struct fanin_wqe *wqe);

/* Take up to `capacity` completions. `seen` becomes the number of completions ever taken, for fanin_wait_cq.
 * Only when none is left: FANIN_DEVICE_LOST; FANIN_CQ_OVERRUN, a completion found no room and its job was ended. */
enum fanin_status fanin_poll(struct fanin_context *context, uint32_t cq, struct fanin_cqe *cqes, uint32_t capacity,
                             uint32_t *count, uint32_t *seen);

/* The completion of a request of ordinary traffic, which stands in a completion queue beside those of collectives; NULL
 * if `cqe` is not one. */
const struct fanin_wc *fanin_wc_of(const struct fanin_cqe *cqe);

/* Wait until the device has stored more than `seen` completions. FANIN_PENDING: none within `timeout_ms`.
 * FANIN_CQ_OVERRUN: none will come. */
enum fanin_status fanin_wait_cq(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t timeout_ms);

/* The number of completions that the device has ever stored, taken or not: for fanin_wait_cq, to wait for the next one
 * that comes. */
enum fanin_status fanin_stored(struct fanin_context *context, uint32_t cq, uint32_t *stored);
/* The number of those that were ever taken: to wait for one that is there, or comes. */
enum fanin_status fanin_taken(struct fanin_context *context, uint32_t cq, uint32_t *taken);
/* Whether one of the completions after the first `seen` is of a message that was sent as solicited, is no success, is
 * of a collective, or has been taken meanwhile. `stored`: as of fanin_stored. */
int fanin_is_solicited(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t *stored);

/* As fanin_wait_cq, with one sleep of at most `longest_ms`, which fanin_wake_cq ends: then FANIN_PENDING. It may end
 * early for no reason. For threads that do nothing else. */
enum fanin_status fanin_sleep_cq(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t longest_ms);
void fanin_wake_cq(struct fanin_context *context, uint32_t cq);

/* ---- The lower interface: ordinary RDMA traffic ----
 *
 * Queue pairs of RC, UC and UD, beside the offload: docs/transport.md. Codes are those of infiniband/verbs.h. A queue
 * pair and the memory of its requests are of one protection domain, a number from 0 to 65535 that the program
 * chooses. The other side is named by IPv4 address and number. */

/* As fanin_register and fanin_allocate, for ordinary traffic of a protection domain: FANIN_ACCESS_ORDINARY is added to
 * `access`. The key serves as local and as remote key, and for collectives, too. memfd -1: any memory of this process;
 * then it is not for collectives, and the device reaches it by system calls. It must stay mapped as it is until it is
 * deregistered: the device does not learn of later changes, and writes to memory that has become read-only meanwhile.
 * FANIN_LOCAL_PROTECTION_ERROR: the process may not read it now, or, with rights to change it, may not write it. */
enum fanin_status fanin_register_ordinary(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                          uint64_t length, uint32_t access, uint32_t domain, uint32_t *key);
enum fanin_status fanin_allocate_ordinary(struct fanin_context *context, uint64_t length, uint32_t access,
                                          uint32_t domain, void **address, uint32_t *key);

/* What a queue pair is made with. */
struct fanin_qp_init {
    uint32_t service;         /* enum fanin_service */
    uint32_t domain;
    uint32_t send_cq;
    uint32_t receive_cq;
    uint32_t all_signaled;    /* every request to send has a completion */
    uint32_t shared_queue;    /* 1 + number of a shared receive queue of its domain; 0: it has its own */
};

/* Make a queue pair in the state RESET. `qpn` is its number on the wire, `qp` the one for the functions here. */
enum fanin_status fanin_create_ordinary_qp(struct fanin_context *context, const struct fanin_qp_init *init,
                                           uint32_t *qp, uint32_t *qpn);
/* Its requests have no completions any more, and those that nobody has polled are gone. When it returns FANIN_SUCCESS
 * the device touches no memory on behalf of this queue pair. */
enum fanin_status fanin_destroy_ordinary_qp(struct fanin_context *context, uint32_t qp);

/* Change the state of a queue pair, and the attributes that `mask` names, as ibv_modify_qp; head and qp are filled in
 * here. FANIN_INVALID_REQUEST: verbs does not allow the change, and nothing has changed. */
enum fanin_status fanin_modify_ordinary_qp(struct fanin_context *context, uint32_t qp,
                                           const struct fanin_qp_attributes *attributes);
enum fanin_status fanin_query_ordinary_qp(struct fanin_context *context, uint32_t qp,
                                          struct fanin_qp_attributes *attributes);

/* Post a request. FANIN_QUEUE_FULL: the device has not taken enough yet. FANIN_INVALID_REQUEST: the state of the queue
 * pair does not allow it (to send: before RTS; to receive: RESET), or it has too many pieces, or too much inline data.
 * Anything else that is wrong with it is said by its completion. */
enum fanin_status fanin_post_send(struct fanin_context *context, uint32_t qp, const struct fanin_send_wqe *wqe);
enum fanin_status fanin_post_receive(struct fanin_context *context, uint32_t qp, const struct fanin_receive_wqe *wqe);
/* Post several requests to send, one after the other, or none of them: with the status of the first that is refused, or
 * FANIN_QUEUE_FULL if there is no room for all. */
enum fanin_status fanin_post_sends(struct fanin_context *context, uint32_t qp, const struct fanin_send_wqe *wqes,
                                   uint32_t count);

/* Make a shared receive queue, for queue pairs of a protection domain. `shared_queue` is the number for the functions
 * here. */
enum fanin_status fanin_create_shared_queue(struct fanin_context *context, uint32_t domain, uint32_t *shared_queue);
/* What waits in it has no completions. FANIN_INVALID_REQUEST: queue pairs receive from it. */
enum fanin_status fanin_destroy_shared_queue(struct fanin_context *context, uint32_t shared_queue);
/* Post a request to receive, which the next message for any of its queue pairs takes; its completion goes to the queue
 * of that queue pair. The results are those of fanin_post_receive. */
enum fanin_status fanin_post_shared(struct fanin_context *context, uint32_t shared_queue,
                                    const struct fanin_receive_wqe *wqe);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
