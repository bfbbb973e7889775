/* libsharp_coll over Fanin: the functions that UCC's transport layer `sharp` (TL/SHARP) calls.
 *
 * This is not NVIDIA's header. It is written from the names, fields and constants in UCC's source (BSD licence,
 * src/components/tl/sharp); layouts and values are our own. Compile UCC with this header: one compiled with NVIDIA's
 * can not load this library.
 *
 * Functions return SHARP_COLL_SUCCESS or a negative enum sharp_coll_error, and explain errors on standard error.
 * Threads may share everything, but nothing may be freed while another thread uses it. All ranks call init, comm_init
 * and their counterparts, the only functions that wait for other ranks. */
#ifndef SHARP_API_SHARP_COLL_H
#define SHARP_API_SHARP_COLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum sharp_coll_error {
    SHARP_COLL_SUCCESS = 0,
    SHARP_COLL_ERROR = -1,           /* the device, a rank or the job is lost */
    SHARP_COLL_ENOT_SUPP = -2,       /* devices do not compute this */
    SHARP_COLL_ENOMEM = -3,
    SHARP_COLL_EINVAL = -4,
    SHARP_COLL_ENO_RESOURCE = -5     /* no device, or it has no room for one more job */
};

/* The meaning of an error, in a sentence. Never NULL. */
const char *sharp_coll_strerror(int error);

/* For the NULL of each kind UCC uses another layer without asking. */

enum sharp_datatype {
    SHARP_DTYPE_NULL = 0,
    SHARP_DTYPE_UNSIGNED = 1,
    SHARP_DTYPE_INT = 2,
    SHARP_DTYPE_UNSIGNED_LONG = 3,
    SHARP_DTYPE_LONG = 4,
    SHARP_DTYPE_FLOAT = 5,
    SHARP_DTYPE_DOUBLE = 6,
    SHARP_DTYPE_UNSIGNED_SHORT = 7,
    SHARP_DTYPE_SHORT = 8,
    SHARP_DTYPE_FLOAT_SHORT = 9,
    SHARP_DTYPE_BFLOAT16 = 10,
    SHARP_DTYPE_INT8 = 11,
    SHARP_DTYPE_UINT8 = 12
};

enum sharp_reduce_op {
    SHARP_OP_NULL = 0,
    SHARP_OP_MAX = 1,
    SHARP_OP_MIN = 2,
    SHARP_OP_SUM = 3,
    SHARP_OP_LAND = 4,
    SHARP_OP_BAND = 5,
    SHARP_OP_LOR = 6,
    SHARP_OP_BOR = 7,
    SHARP_OP_LXOR = 8,
    SHARP_OP_BXOR = 9,
    SHARP_OP_MAXLOC = SHARP_OP_NULL, /* UCC's pairs differ from the devices' */
    SHARP_OP_MINLOC = SHARP_OP_NULL
};

enum sharp_data_memory_type {
    SHARP_MEM_TYPE_HOST = 0,
    SHARP_MEM_TYPE_LAST = 1,
    SHARP_MEM_TYPE_CUDA = SHARP_MEM_TYPE_LAST /* devices can not read a GPU's memory */
};

enum sharp_data_layout { SHARP_DATA_BUFFER = 0 };
enum sharp_aggregation { SHARP_AGGREGATION_NONE = 0 };

/* A context: this process and its device. */

struct sharp_coll_context;

struct sharp_coll_config {
    const char *ib_dev_list;         /* NICs to choose from: names or sockets, separated by ','; NULL, "": all */
    unsigned user_progress_num_polls; /* ignored: nothing here polls */
};
extern const struct sharp_coll_config sharp_coll_default_config;

/* Exchange of `size` bytes of each rank, outside Fanin. A negative result is an error. */
struct sharp_coll_out_of_band {
    int (*barrier)(void *oob_ctx);
    int (*bcast)(void *oob_ctx, void *data, int size, int root);
    int (*gather)(void *oob_ctx, int root, void *own, void *all, int size);
};

struct sharp_coll_init_spec {
    uint64_t job_id;                 /* ignored: each group has its own job id */
    int world_rank, world_size;
    int world_local_rank;            /* among the ranks of this host: chooses the NIC */
    int enable_thread_support;       /* ignored: threads may always call */
    int group_channel_idx;           /* ignored */
    int (*progress_func)(void); /* ignored */
    struct sharp_coll_config config;
    struct sharp_coll_out_of_band oob_colls;
    void *oob_ctx;
};

/* All ranks of the world get a context, or none. */
int sharp_coll_init(struct sharp_coll_init_spec *spec, struct sharp_coll_context **context);
int sharp_coll_finalize(struct sharp_coll_context *context);

enum sharp_feature {
    SHARP_FEATURE_SAT = 1            /* "streaming aggregation": long messages, allgather, reduce-scatter */
};
struct sharp_coll_caps {
    struct {
        uint64_t dtypes;             /* bit N: enum sharp_datatype N */
        uint64_t feature_mask;       /* enum sharp_feature, or-ed */
    } support_mask;
};
int sharp_coll_caps_query(struct sharp_coll_context *context, struct sharp_coll_caps *caps);

/* Take completions, and post what has waited for room. Returns 0, at once. */
int sharp_coll_progress(struct sharp_coll_context *context);

/* Devices access any host memory, so registrations are empty. */
int sharp_coll_reg_mr(struct sharp_coll_context *context, void *memory, size_t size, void **registration);
int sharp_coll_dereg_mr(struct sharp_coll_context *context, void *registration);

/* A group of ranks. */

struct sharp_coll_comm;

struct sharp_coll_comm_init_spec {
    int rank, size;
    const uint32_t *group_world_ranks; /* ignored */
    void *oob_ctx;
};

/* All ranks of the group get it, or none. */
int sharp_coll_comm_init(struct sharp_coll_context *context, struct sharp_coll_comm_init_spec *spec,
                         struct sharp_coll_comm **comm);
int sharp_coll_comm_destroy(struct sharp_coll_comm *comm);

/* ---- Collectives: all ranks of a group begin them in the same order; any number may be under way. ---- */

struct sharp_coll_data_desc {
    enum sharp_data_layout type;
    enum sharp_data_memory_type mem_type;
    struct {
        void *ptr;
        size_t length;               /* bytes */
        void *mem_handle; /* ignored */
    } buffer;
};

struct sharp_coll_reduce_spec {
    struct sharp_coll_data_desc sbuf_desc, rbuf_desc;
    enum sharp_datatype dtype;
    enum sharp_reduce_op op;
    size_t length;                   /* elements of the result */
    size_t offset;                   /* of a reduce-scatter: 0 */
    enum sharp_aggregation aggr_mode;
};

struct sharp_coll_bcast_spec {
    struct sharp_coll_data_desc buf_desc;
    size_t size;                     /* bytes */
    int root;
};

struct sharp_coll_gather_spec {
    struct sharp_coll_data_desc sbuf_desc, rbuf_desc;
    enum sharp_datatype dtype;       /* ignored: data are only moved */
    size_t offset;                   /* 0 */
};

int sharp_coll_do_barrier_nb(struct sharp_coll_comm *comm, void **request);
int sharp_coll_do_allreduce_nb(struct sharp_coll_comm *comm, struct sharp_coll_reduce_spec *spec, void **request);
int sharp_coll_do_bcast_nb(struct sharp_coll_comm *comm, struct sharp_coll_bcast_spec *spec, void **request);
/* In place (both are the same memory), `length` counts all ranks' blocks, as even as possible, the first ones longer;
 * the result replaces this rank's block. */
int sharp_coll_do_reduce_scatter_nb(struct sharp_coll_comm *comm, struct sharp_coll_reduce_spec *spec, void **request);
int sharp_coll_do_allgather_nb(struct sharp_coll_comm *comm, struct sharp_coll_gather_spec *spec, void **request);

/* UCC's configure looks for these two names. */
#define sharp_coll_do_reduce_scatter sharp_coll_do_reduce_scatter_nb
#define sharp_coll_do_allgather sharp_coll_do_allgather_nb

/* Whether a request is done. UCC takes any end for success, so a failure ends the process, unless
 * FANIN_SHARP_FAILURE=wait. */
int sharp_coll_req_test(void *request);
int sharp_coll_req_free(void *request);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
