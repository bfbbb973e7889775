/* The interface between NCCL and a network plugin, versions 8 (NCCL 2.19) to 12 (2.30). Codes and layouts are those of
 * NCCL's nccl.h, nccl_common.h and net_v8.h to net_v12.h, which the build does not need: `make nccl` compares them.
 * Field names are ours. */
#ifndef FANIN_NCCL_ABI_H
#define FANIN_NCCL_ABI_H
#include <stddef.h>
#include <stdint.h>

#define NCCL_HANDLE_BYTES 128 /* of a handle */
#define NCCL_MAX_REQUESTS 32  /* under way on one connection or group */

enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6
};

enum nccl_datatype {
    NCCL_INT8 = 0,
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_UINT32 = 3,
    NCCL_INT64 = 4,
    NCCL_UINT64 = 5,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9,
    NCCL_FLOAT8_E4M3 = 10,
    NCCL_FLOAT8_E5M2 = 11
};

enum nccl_op { NCCL_SUM = 0, NCCL_PROD = 1, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_AVG = 4 };

enum nccl_pointer { NCCL_PTR_HOST = 1, NCCL_PTR_CUDA = 2, NCCL_PTR_DMABUF = 4 };

enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
enum nccl_log_subsystem { NCCL_LOG_INIT = 1, NCCL_LOG_NET = 16 };

typedef void (*nccl_logger)(int level, unsigned long subsystems, const char *file, int line, const char *format, ...);

/* A device. Versions differ after `max_receives`, and 8 has no `force_flush`. */
struct nccl_properties_v8 {
    char *name;
    char *pci_path;           /* NULL: unknown */
    uint64_t guid;            /* of the device */
    int pointers;             /* enum nccl_pointer, or-ed */
    int is_registered_for_all; /* a registration is valid on all connections */
    int speed;                /* Mbit/s */
    int port;
    float latency;            /* us */
    int max_connections;
    int max_receives;         /* in one request */
    int device_type, device_version; /* of offload into GPU kernels: 0 */
};

#define NCCL_PROPERTIES(NICS)                                                             \
    char *name, *pci_path;                                                                \
    uint64_t guid;                                                                        \
    int pointers, is_registered_for_all, force_flush, speed, port;                        \
    float latency;                                                                        \
    int max_connections, max_receives, device_type, device_version;                       \
    int nic_count, nics[NICS]; /* of a virtual device: itself */           \
    size_t max_message_bytes, max_collective_bytes;

struct nccl_properties_v9 {   /* 10 as well */
    NCCL_PROPERTIES(4)
};
struct nccl_properties_v11 {
    NCCL_PROPERTIES(4)
    int max_grouped_requests;
};
struct nccl_properties_v12 {
    NCCL_PROPERTIES(8)
    int max_grouped_requests;
    int16_t rail, plane;      /* -1: unknown */
};

/* A piece of memory of an allgather or reduce-scatter. */
struct nccl_piece_v8 {
    void *registration;
    void *address;
    uint32_t bytes;
};
struct nccl_piece {           /* from 9 on */
    void *registration;
    void *address;
    size_t bytes;
};

/* An interface: name, and functions in the version's order. */
typedef void (*nccl_entry)(void);
#define NCCL_NET_ENTRIES 22
struct nccl_interface {
    const char *name;
    nccl_entry entries[NCCL_NET_ENTRIES];
};
#endif
