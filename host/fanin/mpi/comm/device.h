#ifndef FANIN_MPI_DEVICE_H
#define FANIN_MPI_DEVICE_H
#include "fanin.h"

struct device {
    struct fanin_context *context; /* NULL: none */
    struct fanin_place place;
};

extern struct device shim_device;

/* Whether an IPv4 address is a loopback address: 127.x.y.z. */
static inline int shim_is_loopback(uint32_t address)
{
    return address >> 24 == 127;
}

/* Find the device of rank `rank` of `ranks` and attach to it. FANIN_NO_DEVICE: not found. */
enum fanin_status shim_open_device(int rank, int ranks);
void shim_close_device(void);
/* Whether the fabric `default` is up, but only on other hosts or in other network namespaces. */
int shim_fabric_is_elsewhere(void);
#endif
