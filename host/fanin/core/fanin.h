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
 * A function that can fail returns enum fanin_status; FANIN_SUCCESS is 0. It writes its output arguments on success,
 * and otherwise only where its comment says so. Times are milliseconds of a monotonic clock. No argument may be NULL
 * unless its comment allows it; fanin_free(NULL) and fanin_close(NULL) do nothing.
 *
 * Threads may share all objects, but none may be closed while another thread uses it. A forked child must not use what
 * its parent has opened: it calls fanin_close_inherited and opens its own.
 *
 * cffi reads this file, so it has no macros and no inline functions. */
#ifndef FANIN_H
#define FANIN_H
#include "abi.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* ---- Status ---- */

/* The name of a status ("PEER_LOST" for FANIN_PEER_LOST; "UNKNOWN" for an unknown code), its meaning, and what to do
 * about it, each in a sentence. Never NULL; static. */
const char *fanin_status_name(enum fanin_status status);
const char *fanin_status_meaning(enum fanin_status status);
const char *fanin_status_remedy(enum fanin_status status);

/* Why the last refused call of this thread returned FANIN_INVALID_REQUEST, FANIN_NOT_SUPPORTED or FANIN_NO_DEVICE (in
 * some cases FANIN_NO_RESOURCES; of fanin_shrink also FANIN_TIMEOUT): what was wrong, without a full stop. After a
 * failed request or join, the members that it names, as by fanin_name_members. Otherwise empty. Never NULL; valid until
 * the thread's next call. */
const char *fanin_complaint(void);

/* The clock of all time-outs, in milliseconds. */
uint64_t fanin_now_ms(void);

/* ---- Devices ---- */

struct fanin_context;         /* a connection to one device */

/* Connect to the device with the control socket `socket_path`, and attach to it: exchange rings and memory. A path
 * rdma://[VERBS-DEVICE@]ADDRESS:PORT names a device that is reached by RDMA. NULL: the path is in the environment
 * variable FANIN_SOCKET. The caller frees `context` with fanin_close. FANIN_NO_DEVICE: no device answers.
 * FANIN_VERSION_MISMATCH: the device speaks another version of this interface. */
enum fanin_status fanin_open(const char *socket_path, struct fanin_context **context);

/* fanin_open in two steps. Before fanin_attach only fanin_read_status and fanin_close are possible. `limits` becomes a
 * copy of fanin_limits. */
enum fanin_status fanin_connect(const char *socket_path, struct fanin_context **context);
enum fanin_status fanin_attach(struct fanin_context *context, struct fanin_attach_reply *limits);

/* What the device allows this process; owned by the context. */
const struct fanin_attach_reply *fanin_limits(const struct fanin_context *context);

/* Version of the host interface in the device's last reply; 0: no reply yet. */
uint32_t fanin_device_version(const struct fanin_context *context);

/* Whether the device is lost: it has ended, or stands still. */
int fanin_device_is_lost(struct fanin_context *context);

/* Whether a lost device may still write to memory of requests under way: one that stands still, and may go on later.
 * Over RDMA, only if the library could neither destroy the queue pair nor deregister the memory. */
int fanin_device_stands_still(const struct fanin_context *context);

/* Write the device's status into `json`: at most `capacity` bytes of JSON in UTF-8, without a terminator.
 * FANIN_NO_RESOURCES: `capacity` is less than `length`, which is set. */
enum fanin_status fanin_read_status(struct fanin_context *context, char *json, size_t capacity, size_t *length);

/* Close the connection and free the context. The program should have left all jobs. If not, this waits up to 10 s until
 * all ranks have this one's data, then leaves the jobs in which nothing is under way here; in the others the other
 * ranks get FANIN_PEER_LOST. */
void fanin_close(struct fanin_context *context);

/* In a forked child: free the copy of a connection that the parent has opened, and detach its communicators. Sends
 * nothing. */
void fanin_close_inherited(struct fanin_context *context);

/* ---- Memory ----
 * A device accesses registered memory in place, and other memory of the process by system calls or through bounce
 * buffers of the library. A collective finds out by itself which memory is registered. Memory may be registered with
 * several devices. */

/* Register `length` bytes at `address`, which map the bytes from `offset` of a memfd that is sealed against shrinking.
 * `access`: enum fanin_access, or-ed. The caller keeps the mapping until fanin_deregister, and may close `memfd`. */
enum fanin_status fanin_register(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                 uint64_t length, uint32_t access, uint32_t *lkey);
enum fanin_status fanin_deregister(struct fanin_context *context, uint32_t lkey);

/* New zeroed, registered memory: a mapped memfd. Free it with fanin_deregister, then fanin_unmap. */
enum fanin_status fanin_allocate(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                 uint32_t *lkey);

/* The same, and the memfd, to register the memory with further devices. The caller closes `memfd`. */
enum fanin_status fanin_allocate_shared(struct fanin_context *context, uint64_t length, uint32_t access, void **address,
                                        uint32_t *lkey, int *memfd);

/* Unmap memory of fanin_allocate, after fanin_deregister. It may outlive the context. */
void fanin_unmap(void *address, uint64_t length);

/* Key of the registered region that holds all these bytes, or FANIN_LKEY_PROCESS. */
uint32_t fanin_lkey_of(struct fanin_context *context, const void *address, uint64_t length);

/* Borrow a bounce buffer of `length` bytes: registered, uninitialised memory. NULL: too long, or none left. The caller
 * returns it when the device is done with it. */
void *fanin_borrow(struct fanin_context *context, uint64_t length);
void fanin_return(struct fanin_context *context, void *memory);

/* ---- Jobs ---- */

enum fanin_job_limit { FANIN_ROUTE_AUTO = 255 };

/* Where one rank is: its node's NIC, and the switches above it. */
struct fanin_place {
    uint32_t address;         /* IPv4 of the NIC, host order */
    uint32_t ring;            /* nodes of a plain switch have the same number and form a ring; 0: none */
    uint32_t hops;            /* offloading switches above the node */
    uint32_t hop[8];          /* their IPv4 addresses, lowest first */
};

/* The ranks of a job, and how they communicate; equal on all of them. */
struct fanin_job {
    uint32_t jid;             /* job id: not 0, and unique on these devices */
    uint32_t key;             /* random; keeps packets of other jobs out */
    uint32_t route;           /* enum fanin_route, or FANIN_ROUTE_AUTO */
    uint32_t chunk;           /* payload bytes of a segment: a power of two; 0: 4096, or the device's limit if lower */
    uint32_t slots;           /* segment buffers on each device: a power of two; 0: a default */
    uint32_t flags;           /* enum fanin_job_flags, or-ed */
    uint32_t ranks;
    uint32_t reserved;
    const struct fanin_place *places; /* one for each rank */
};

struct fanin_communicator;    /* this process as one rank of one job */

/* Read a job from a file, as `fanin run` writes it (docs/collectives.md has the format). The caller frees `job->places`
 * with free(). FANIN_INVALID_REQUEST: the file can not be read or makes no sense; fanin_complaint names line and word,
 * and nothing is allocated. */
enum fanin_status fanin_job_of_file(const char *path, struct fanin_job *job);

/* The same for the file $FANIN_JOB, and this process's rank, $FANIN_RANK. `fanin run` sets both. */
enum fanin_status fanin_job_of_environment(struct fanin_job *job, uint32_t *rank);

/* Job flags for the default order in which devices add floating-point numbers: that of the ranks
 * (FANIN_JOB_REPRODUCIBLE_RUN), which gives the same bits each time, or, with FANIN_ORDER=arrival, that of arrival.
 * FANIN_INVALID_REQUEST: FANIN_ORDER is another word; `flags` is set to the order of the ranks. */
enum fanin_status fanin_order_of_environment(uint32_t *flags);

/* Read a place as in such a file: "ADDRESS RING SWITCH...", up to the end or a '#'. An unknown address is 0.0.0.0.
 * FANIN_INVALID_REQUEST: as above. */
enum fanin_status fanin_place_of_text(const char *text, struct fanin_place *place);

enum fanin_nic_limit { FANIN_MAX_NICS = 64 };

/* A NIC: its control socket and its place, all 0 if unknown. */
struct fanin_nic {
    char socket[256];
    struct fanin_place place;
};

/* Write the NICs of this host (or network namespace) and return their number: of those whose sockets FANIN_SOCKET
 * names, separated by ':', or else of the fabric `default` of `fanin fabric up`. `elsewhere`: the number of NICs left
 * out, because their addresses are not of this host; if that were all that FANIN_SOCKET names, they are taken. Does not
 * check that NICs answer. */
uint32_t fanin_find_nics(struct fanin_nic nics[FANIN_MAX_NICS], uint32_t *elsewhere);

/* For a process that finds no NIC: write the fabrics that `fanin fabric up` has brought up for this user, each with its
 * FANIN_SOCKET, into `words`, of `capacity` bytes; those without room are left out. Looks in the state folders of
 * processes with and without a login session. Empty: no fabric. */
void fanin_name_fabrics(char *words, size_t capacity);

/* The JOIN of rank `rank`. FANIN_INVALID_REQUEST, on all ranks alike: the places make no job. */
enum fanin_status fanin_describe(const struct fanin_job *job, uint32_t rank, struct fanin_join *join);

/* Write the ranks that a completion of rank `rank` names as missing, by its `missing` and `missing_kind`, into `ranks`,
 * which has room for all ranks of the job, and return their number. Devices of other nodes name a node, or everything
 * below a switch: then all ranks there count. */
uint32_t fanin_missing_ranks(const struct fanin_job *job, uint32_t rank, uint64_t missing, uint32_t kind,
                             uint32_t *ranks);

/* The same in words: "missing: rank 2 (node 10.0.0.2)"; for FANIN_OP_MISMATCH "noticed at: ..." and the ranks whose
 * call differs from earlier ones; for FANIN_PEER_LOST first the switch or NIC that does not answer, if known. Uses only
 * status, missing, missing_kind and lost_device of `cqe`. Of many ranks names the first. Empty: no member. `capacity`:
 * bytes of `words`, at least 1. */
void fanin_name_members(const struct fanin_job *job, uint32_t rank, const struct fanin_cqe *cqe, char *words,
                        size_t capacity);

/* The path of a job as rank `rank` sees it, in words, for logs: route (with the reason for a ring that was not asked
 * for), NICs, switches, segments of `chunk` bytes, and the MTU of this rank's NIC; chunk, mtu: 0 if unknown. Of many
 * NICs names the first. Empty: the places make no job. */
void fanin_name_path(const struct fanin_job *job, uint32_t rank, uint32_t chunk, uint32_t mtu, char *words,
                     size_t capacity);

/* The same for a job that this process has joined. */
void fanin_name_path_of(const struct fanin_communicator *communicator, char *words, size_t capacity);

/* Join a job as one of its ranks, and wait for all others. FANIN_TIMEOUT: not all joined within `timeout_ms`. A rank
 * can join a job once; to join again, use another id or key. fanin_leave or fanin_abandon frees the communicator, as it
 * does each one that a function here makes. */
enum fanin_status fanin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                             uint32_t timeout_ms, struct fanin_communicator **communicator);

/* A communicator of the same ranks, whose collectives do not wait for this one's. `slots`: segment buffers of its
 * lease; 0: as this one. All ranks call it. */
enum fanin_status fanin_dup(struct fanin_communicator *communicator, uint32_t slots, uint32_t timeout_ms,
                            struct fanin_communicator **made);

/* A communicator of the ranks that give the same `color`, ordered by `key`, then by rank. Negative color: this rank is
 * in none, and `made` becomes NULL. All ranks call it. */
enum fanin_status fanin_split(struct fanin_communicator *communicator, int64_t color, int64_t key, uint32_t timeout_ms,
                              struct fanin_communicator **made);

/* A communicator of the survivors after FANIN_PEER_LOST in this or another communicator of these ranks, in the same
 * order. All survivors call it; a rank that has not called within `timeout_ms` counts as lost. If a switch is lost, the
 * new job uses a ring of the NICs. FANIN_PEER_LOST, FANIN_TIMEOUT: another rank was lost meanwhile; all call it again.
 * FANIN_DEVICE_LOST: this rank's device is lost, so this rank is, too. The old communicator must still be left. */
enum fanin_status fanin_shrink(struct fanin_communicator *communicator, uint32_t timeout_ms,
                               struct fanin_communicator **made);

/* A process that will join a job. */
struct fanin_newcomer {
    uint32_t rank;            /* in the new job */
    uint32_t reserved;
    struct fanin_place place;
};

/* A communicator of the ranks of this one and of `count` newcomers. A newcomer has the rank that `newcomers` names, and
 * the others keep their order around the newcomers. All ranks call it, with the same newcomers. The program sends each
 * newcomer its rank and the job, which fanin_job_of returns after fanin_begin_grow; the newcomer calls fanin_join.
 * FANIN_TIMEOUT: a newcomer or a rank has not come. FANIN_MEMBERS_MISMATCH: ranks gave different newcomers. The old
 * communicator stays usable. */
enum fanin_status fanin_grow(struct fanin_communicator *communicator, const struct fanin_newcomer *newcomers,
                             uint32_t count, uint32_t timeout_ms, struct fanin_communicator **made);

/* The same in steps: each begins to make a communicator, for which the program may call only fanin_finish_join,
 * fanin_job_of and fanin_abandon until fanin_finish_join has succeeded. */
enum fanin_status fanin_begin_join(struct fanin_context *context, const struct fanin_job *job, uint32_t rank,
                                   struct fanin_communicator **communicator);
enum fanin_status fanin_begin_dup(struct fanin_communicator *communicator, uint32_t slots,
                                  struct fanin_communicator **made);
enum fanin_status fanin_begin_shrink(struct fanin_communicator *communicator, uint32_t timeout_ms,
                                     struct fanin_communicator **made);
enum fanin_status fanin_begin_grow(struct fanin_communicator *communicator, const struct fanin_newcomer *newcomers,
                                   uint32_t count, struct fanin_communicator **made);

/* The arguments of a rank in a split. */
struct fanin_choice {
    int64_t color, key;
};
/* choices: of all ranks, which the program has exchanged. */
enum fanin_status fanin_begin_split(struct fanin_communicator *communicator, const struct fanin_choice *choices,
                                    struct fanin_communicator **made);

/* Wait about `timeout_ms`. FANIN_PENDING: not all ranks have joined yet. `reply` is always set: it names missing
 * members, or the lease that would fit. After any status but FANIN_PENDING and FANIN_SUCCESS call fanin_abandon. */
enum fanin_status fanin_finish_join(struct fanin_communicator *communicator, struct fanin_join_reply *reply,
                                    uint32_t timeout_ms);

/* The job of a communicator, owned by it. During a shrink it is the old job, which is valid until the fanin_finish_join
 * that begins to join the new one. */
const struct fanin_job *fanin_job_of(const struct fanin_communicator *communicator);

/* Wait at most `timeout_ms` until all ranks have this rank's data of requests that have ended early (see fanin_start).
 * FANIN_PENDING: not yet. Any other status: such a request has failed with it. Each failure is reported once, here or
 * by another request; fanin_communicator_state has the details in `ended`. */
enum fanin_status fanin_flush(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* Flush as fanin_flush, leave the job, and free the communicator, whatever the status. Requests under way end with
 * FANIN_FLUSHED; the program still frees each request, persistent ones included. The other ranks get FANIN_ABORTED for
 * their requests under way. FANIN_SUCCESS: the device no longer touches memory for this job. Any other status: it may
 * still write to memory of requests that were under way. */
enum fanin_status fanin_leave(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* The same without leaving the job: the other ranks get FANIN_PEER_LOST. */
enum fanin_status fanin_abandon(struct fanin_communicator *communicator);

/* fanin_leave in steps. Returns at once; nothing more may be started, and what is under way goes on. */
void fanin_begin_leave(struct fanin_communicator *communicator);
/* Wait at most `timeout_ms` until nothing is under way and the device has confirmed the leave. FANIN_PENDING: not yet.
 * Any other status: as of fanin_leave, and the communicator is freed. */
enum fanin_status fanin_finish_leave(struct fanin_communicator *communicator, uint32_t timeout_ms);

/* End the job for all ranks: requests under way here, and later ones, end with `status`. The communicator must still be
 * left. */
void fanin_end_job(struct fanin_communicator *communicator, enum fanin_status status);

uint32_t fanin_rank(const struct fanin_communicator *communicator);
uint32_t fanin_size(const struct fanin_communicator *communicator);

/* The lease of a communicator, and what it has done. */
struct fanin_communicator_state {
    uint32_t jid, slots, window, chunk; /* of the lease: seg buffers, positions in flight, payload bytes of a segment */
    uint32_t qp, cq;
    uint64_t posted;          /* requests, ever */
    uint64_t outstanding;     /* requests of which a part is under way */
    uint64_t backlog;         /* requests that wait for room or for sizes */
    struct fanin_cqe ended;   /* status FANIN_SUCCESS: the job goes on. Otherwise the completion that ended it; without
                               * one (a lost device, for example) only status and jid are set */
    uint64_t ended_number;    /* fanin_number of the request of `ended`, or 0 */
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
    /* Begin when all requests started before on this communicator are complete: their results may be its input. */
    FANIN_FENCE = 1,
    /* All ranks make this call as a blocking one: then long messages of several blocks are cut, so that copies of parts
     * overlap with their transfer. */
    FANIN_ALL_BLOCK = 2,
    /* Exchange the sizes of a v-form first. Allgatherv, gatherv: each rank gives in `block` the bytes that it brings.
     * Scatterv: the root gives `sizes`. Other sizes are expectations, which are checked: `sizes` if it is given, and in
     * scatterv `block` on other ranks, unless it is FANIN_ANY_SIZE. All ranks set this flag, or none. */
    FANIN_EXCHANGE_SIZES = 4
};

/* A rank's part in a collective. A message has one block (allreduce, reduce, broadcast), one for each rank (the
 * others), or none (barrier). Source and destination have no gaps. They may be the same memory block on block (in
 * place); any other overlap is FANIN_INVALID_REQUEST. If collective, root, op, dtype, tag and sizes are not equal on
 * all ranks, these get FANIN_OP_MISMATCH. */
struct fanin_operation {
    uint32_t collective;      /* enum fanin_collective */
    uint32_t root;            /* of reduce, broadcast, gather, scatter and their v-forms */
    uint32_t op;              /* enum fanin_op; NONE where nothing is computed */
    uint32_t dtype;           /* enum fanin_dtype; may be NONE where nothing is computed */
    uint32_t flags;           /* enum fanin_operation_flags, or-ed */
    uint32_t tag;             /* any number on which the ranks must agree, or 0 */
    uint32_t timeout_ms;      /* for all ranks to take part; 0: none */
    uint32_t reserved;
    uint64_t block;           /* bytes of each block, if `sizes` is NULL */
    const uint64_t *sizes;    /* bytes of each rank's block, read before the start returns; NULL: all have `block` */
    const void *source;       /* this rank's data; not read if it brings none */
    void *destination;        /* for the result, if this rank gets one. NULL: the result is discarded, but if sizes are
                               * exchanged the library keeps it for fanin_result */
};

enum fanin_request_limit { FANIN_ANY_SIZE = -1 };

struct fanin_request;         /* a collective under way, or a persistent one */

/* Start a collective and return at once. Any number may be under way; they run in the order of their starts. The
 * program must not touch its buffers until it has ended, and frees the request with fanin_free.
 *
 * A request may end early, before the other ranks take part. That of a rank without a result (the root of a broadcast,
 * the others of a reduce) ends when the library has copied its data: up to 16 bytes, or data outside registered memory;
 * not with `timeout_ms`, FANIN_FENCE, or a persistent request. If it fails later, the next request fails, too, and
 * fanin_flush says why. A receiver's request may end early if the data come from its own node. So leave the job, or
 * close the device, before the program ends: otherwise the job ends for slower ranks. */
enum fanin_status fanin_start(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                              struct fanin_request **request);

/* Make a persistent request, which fanin_restart may start any number of times with the current contents of its
 * buffers.
 * FANIN_NOT_SUPPORTED: the operation has FANIN_EXCHANGE_SIZES. */
enum fanin_status fanin_prepare(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                                struct fanin_request **request);
/* Start it, in the order of the communicator as fanin_start does. FANIN_INVALID_REQUEST: its last start is still under
 * way, the request is not persistent, or the job has been left. */
enum fanin_status fanin_restart(struct fanin_request *request);

/* Wait at most `timeout_ms` for a request, and advance the other communicators of this process meanwhile.
 * FANIN_PENDING:
 * still under way. Any other status is its outcome. */
enum fanin_status fanin_wait(struct fanin_request *request, uint32_t timeout_ms);

/* The same without waiting. */
enum fanin_status fanin_test(struct fanin_request *request);

/* Start a collective and wait for its end, at most `timeout_ms`. FANIN_PENDING: still under way. If it is under way, or
 * has failed after its start, `request` becomes the request, for fanin_wait or fanin_failure; the caller frees it. If
 * it was refused or has succeeded, `request` becomes NULL. With `request` NULL it ignores `timeout_ms`; only the
 * operation's own limit counts. */
enum fanin_status fanin_call(struct fanin_communicator *communicator, const struct fanin_operation *operation,
                             uint32_t timeout_ms, struct fanin_request **request);

/* The progress of a request, from its device. */
struct fanin_request_progress {
    uint64_t done;            /* segments whose results are in place */
    uint64_t segments;        /* total; 0: unknown during the exchange of sizes */
    uint64_t missing;         /* whom the first incomplete segment waits for, as in a CQE */
    uint32_t missing_kind;
    uint32_t reserved;
};
/* FANIN_TIMEOUT: the device does not answer. FANIN_QUEUE_FULL: too many questions are under way. */
enum fanin_status fanin_query(struct fanin_request *request, struct fanin_request_progress *progress);

/* The completion with which a request has failed; without one, only the status is set. */
void fanin_failure(const struct fanin_request *request, struct fanin_cqe *cqe);

/* How many requests were started on the communicator before the last start of this one, including internal ones of
 * fanin_split. Equal on all ranks. */
uint64_t fanin_number(const struct fanin_request *request);

/* The result of a request that has succeeded, its length in bytes, and the sizes of the blocks, one for each rank
 * (NULL:
 * all are equal). Valid until the request is freed or the device closed. */
void fanin_result(const struct fanin_request *request, void **address, uint64_t *length, const uint64_t **sizes);

/* Free a request. One that is under way is freed when it has ended; its buffers must live until the communicator is
 * left. */
void fanin_free(struct fanin_request *request);

/* Take completions, and post what has waited for room, in all communicators of this process. Never blocks. */
void fanin_progress(void);

/* Whether a request waits for room or for sizes in this communicator; in any other than this one (NULL: in any). */
int fanin_has_backlog(struct fanin_communicator *communicator);
int fanin_others_have_backlog(struct fanin_communicator *communicator);

/* Segments, and so positions, of an operation; 0 if it would be refused, or exchanges sizes. */
uint64_t fanin_segments_of(struct fanin_communicator *communicator, const struct fanin_operation *operation);

/* Whether devices compute `op` over `dtype` (enum fanin_op, enum fanin_dtype). */
int fanin_is_supported(uint32_t op, uint32_t dtype);
/* Bytes of an element; 0: unknown type. */
uint32_t fanin_dtype_bytes(uint32_t dtype);
/* "f32" for FANIN_DTYPE_F32, "sum" for FANIN_OP_SUM; "" for unknown codes. Never NULL. */
const char *fanin_dtype_name(uint32_t dtype);
const char *fanin_op_name(uint32_t op);

/* ---- Short forms: blocking collectives without time limits ----
 *
 * If one fails with the job, fanin_communicator_state has the completion, `ended`; fanin_missing_ranks its ranks. */

/* `count`: elements that each rank brings. */
enum fanin_status fanin_allreduce(struct fanin_communicator *communicator, const void *source, void *destination,
                                  uint64_t count, enum fanin_dtype dtype, enum fanin_op op);
enum fanin_status fanin_reduce(struct fanin_communicator *communicator, const void *source, void *destination,
                               uint64_t count, enum fanin_dtype dtype, enum fanin_op op, uint32_t root);
/* `count`: elements that each rank gets. */
enum fanin_status fanin_reduce_scatter(struct fanin_communicator *communicator, const void *source, void *destination,
                                       uint64_t count, enum fanin_dtype dtype, enum fanin_op op);
/* `length`: bytes of the message (broadcast), or of each rank's block. */
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

/* The position of a queue pair in its job's stream of segments; equal on all ranks. */
struct fanin_cursor {
    uint32_t position;        /* the next free position */
    uint32_t mid;             /* of the next message, in MID_BITS */
    uint32_t slots;           /* of the lease; 0: none needed */
    uint32_t reserved;
};

struct fanin_membership_request; /* a JOIN or LEAVE under way */

enum fanin_status fanin_create_cq(struct fanin_context *context, uint32_t *cq);
enum fanin_status fanin_destroy_cq(struct fanin_context *context, uint32_t cq);
enum fanin_status fanin_create_qp(struct fanin_context *context, uint32_t cq, uint32_t *qp);
/* FANIN_SUCCESS: the device no longer touches memory for this queue pair. FANIN_PENDING (over RDMA): it is destroyed,
 * but results may still come; fanin_await_results waits for them. */
enum fanin_status fanin_destroy_qp(struct fanin_context *context, uint32_t qp);
/* Wait at most `timeout_ms` for all results of queue pairs that were destroyed or have left. FANIN_PENDING: not yet. */
enum fanin_status fanin_await_results(struct fanin_context *context, uint32_t timeout_ms);

/* Begin to join (leave) a job with a queue pair; the library fills in the head of `join`. fanin_forget_membership frees
 * the request. */
enum fanin_status fanin_join_qp(struct fanin_context *context, const struct fanin_join *join,
                                struct fanin_membership_request **request);
enum fanin_status fanin_leave_qp(struct fanin_context *context, uint32_t qp, struct fanin_membership_request **request);

/* Wait at most `timeout_ms` for the outcome. FANIN_PENDING: not yet. `reply` is always set. */
enum fanin_status fanin_await_membership(struct fanin_membership_request *request, struct fanin_join_reply *reply,
                                         uint32_t timeout_ms);
void fanin_forget_membership(struct fanin_membership_request *request);

/* Check a request of a queue pair that has joined by `join`, with the reply `lease`, and is at `cursor`. Any status but
 * FANIN_SUCCESS: the device would end the job with it; fanin_complaint says why. */
enum fanin_status fanin_check_request(const struct fanin_join *join, const struct fanin_join_reply *lease,
                                      const struct fanin_cursor *cursor, const struct fanin_wqe *wqe);

/* Copy a WQE into the send ring and ring the doorbell. FANIN_QUEUE_FULL: the ring has no room. */
enum fanin_status fanin_post(struct fanin_context *context, uint32_t qp, const struct fanin_wqe *wqe);

/* The same for a request of a job's stream; on success moves the cursor past it. */
enum fanin_status fanin_post_next(struct fanin_context *context, uint32_t qp, struct fanin_cursor *cursor,
                                  const struct fanin_wqe *wqe);

/* Take up to `capacity` completions, `count` in fact. `seen` becomes the number ever taken, for fanin_wait_cq. When
 * none is left: FANIN_DEVICE_LOST, or FANIN_CQ_OVERRUN if a completion found no room, which has ended its job. */
enum fanin_status fanin_poll(struct fanin_context *context, uint32_t cq, struct fanin_cqe *cqes, uint32_t capacity,
                             uint32_t *count, uint32_t *seen);

/* `cqe` as a completion of ordinary traffic, or NULL if it is one of a collective. */
const struct fanin_wc *fanin_wc_of(const struct fanin_cqe *cqe);

/* Wait at most `timeout_ms` until more than `seen` completions were ever stored. FANIN_PENDING: not yet.
 * FANIN_CQ_OVERRUN: none will come. */
enum fanin_status fanin_wait_cq(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t timeout_ms);

/* The number of completions ever stored: as `seen`, to wait for the next one to come. */
enum fanin_status fanin_stored(struct fanin_context *context, uint32_t cq, uint32_t *stored);
/* The number of completions ever taken: as `seen`, to wait for one that is stored or comes. */
enum fanin_status fanin_taken(struct fanin_context *context, uint32_t cq, uint32_t *taken);
/* Whether one of the completions after the first `seen` is of a solicited message, a failure, of a collective, or taken
 * already. `stored`: as of fanin_stored. */
int fanin_is_solicited(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t *stored);

/* As fanin_wait_cq, with one sleep of at most `longest_ms`, for a thread that does nothing else. FANIN_PENDING: the
 * sleep has ended, by time, by fanin_wake_cq, or spuriously. */
enum fanin_status fanin_sleep_cq(struct fanin_context *context, uint32_t cq, uint32_t seen, uint32_t longest_ms);
void fanin_wake_cq(struct fanin_context *context, uint32_t cq);

/* ---- The lower interface: ordinary RDMA traffic ----
 * Queue pairs of RC, UC and UD (docs/transport.md). Codes are those of infiniband/verbs.h. A queue pair and the memory
 * of its requests have the same protection domain, a number from 0 to 65535 that the program chooses. */

/* As fanin_register and fanin_allocate, for ordinary traffic of a protection domain; adds FANIN_ACCESS_ORDINARY to
 * `access`. `key` is the local and the remote key, also for collectives. memfd -1: any memory of this process, which
 * the device reaches by system calls; not for collectives. Its mapping must not change until it is deregistered: the
 * device would write to memory that has become read-only. FANIN_LOCAL_PROTECTION_ERROR: the process may not read it,
 * or, with rights to change it, not write it. */
enum fanin_status fanin_register_ordinary(struct fanin_context *context, int memfd, uint64_t offset, void *address,
                                          uint64_t length, uint32_t access, uint32_t domain, uint32_t *key);
enum fanin_status fanin_allocate_ordinary(struct fanin_context *context, uint64_t length, uint32_t access,
                                          uint32_t domain, void **address, uint32_t *key);

/* The attributes of a new queue pair. */
struct fanin_qp_init {
    uint32_t service;         /* enum fanin_service */
    uint32_t domain;
    uint32_t send_cq;
    uint32_t receive_cq;
    uint32_t all_signaled;    /* every send request has a completion */
    uint32_t shared_queue;    /* 1 + number of a shared receive queue of its domain; 0: none */
};

/* Create a queue pair in state RESET. `qpn`: its number on the wire; `qp`: the one for these functions. */
enum fanin_status fanin_create_ordinary_qp(struct fanin_context *context, const struct fanin_qp_init *init,
                                           uint32_t *qp, uint32_t *qpn);
/* Discards its requests and the completions not yet polled. FANIN_SUCCESS: the device no longer touches memory for
 * it. */
enum fanin_status fanin_destroy_ordinary_qp(struct fanin_context *context, uint32_t qp);

/* Change the state and the attributes that `mask` names, as ibv_modify_qp; the library fills in head and qp.
 * FANIN_INVALID_REQUEST: verbs does not allow the change; nothing has changed. */
enum fanin_status fanin_modify_ordinary_qp(struct fanin_context *context, uint32_t qp,
                                           const struct fanin_qp_attributes *attributes);
enum fanin_status fanin_query_ordinary_qp(struct fanin_context *context, uint32_t qp,
                                          struct fanin_qp_attributes *attributes);

/* Post a request. FANIN_QUEUE_FULL: the ring has no room. FANIN_INVALID_REQUEST: the state does not allow it (to send:
 * before RTS; to receive: RESET), or it has too many pieces or too much inline data. Its completion reports anything
 * else that is wrong. */
enum fanin_status fanin_post_send(struct fanin_context *context, uint32_t qp, const struct fanin_send_wqe *wqe);
enum fanin_status fanin_post_receive(struct fanin_context *context, uint32_t qp, const struct fanin_receive_wqe *wqe);
/* Post `count` send requests in order, or none: then with the status of the first refused one, or FANIN_QUEUE_FULL. */
enum fanin_status fanin_post_sends(struct fanin_context *context, uint32_t qp, const struct fanin_send_wqe *wqes,
                                   uint32_t count);

/* Create a shared receive queue for queue pairs of a protection domain; `shared_queue` becomes its number. */
enum fanin_status fanin_create_shared_queue(struct fanin_context *context, uint32_t domain, uint32_t *shared_queue);
/* Discards its requests without completions. FANIN_INVALID_REQUEST: queue pairs still receive from it. */
enum fanin_status fanin_destroy_shared_queue(struct fanin_context *context, uint32_t shared_queue);
/* As fanin_post_receive, for the next message of any of its queue pairs, to whose completion queue the completion
 * goes. */
enum fanin_status fanin_post_shared(struct fanin_context *context, uint32_t shared_queue,
                                    const struct fanin_receive_wqe *wqe);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
