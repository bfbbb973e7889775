/* The device of this process: its place in the fabric, and the connection to it. */
#ifndef FANIN_MPI_DEVICE_H
#define FANIN_MPI_DEVICE_H
#include "fanin.h"

struct device {
    struct fanin_context *context; /* NULL: there is none */
    struct fanin_place place;
};

extern struct device shim_device;

/* Whether an IPv4 address is one of this machine alone: 127.x.y.z. */
static inline int shim_is_loopback(uint32_t address)
{
    return address >> 24 == 127;
}

/* Find the device of rank `rank` of `ranks` and attach to it. FANIN_NO_DEVICE: there is no sign of one. */
enum fanin_status shim_open_device(int rank, int ranks);
void shim_close_device(void);
/* Whether the fabric `default` is up, and all its NICs are on hosts (or in network namespaces) other than this. */
int shim_fabric_is_elsewhere(void);
#endif
