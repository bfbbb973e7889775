/* The device of this process: where its socket is, what lies above it, and the connection to it. */
#ifndef FANIN_MPI_DEVICE_H
#define FANIN_MPI_DEVICE_H
#include "fanin.h"
#include "job.h"

#define MAX_PATH 256

struct device {
    struct fanin_context *context;
    struct fanin_attach_reply limits;
    struct place place;
    char socket[MAX_PATH];
};

extern struct device fanin_device;

/* Find the device of rank `rank` of `ranks` and attach to it. FANIN_NO_DEVICE: there is no sign of one. */
enum fanin_status fanin_open_device(int rank, int ranks);
void fanin_close_device(void);

const char *fanin_status_name(enum fanin_status status);
#endif
