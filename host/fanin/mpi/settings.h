/* Settings from the environment of rank 0, which broadcasts this structure. */
#ifndef FANIN_MPI_SETTINGS_H
#define FANIN_MPI_SETTINGS_H
#include "thresholds.h"

enum { THRESHOLDS_CAPACITY = 16384 };

/* When a communicator joins a job. */
enum join {
    JOIN_AUTO,                 /* when its calls are worth a job */
    JOIN_EARLY,                /* when it is made */
    JOIN_LATE                  /* when it has had one call that could be offloaded */
};

/* What to print about calls at the end. */
enum report {
    REPORT_IDLE,               /* a line, if no call was offloaded */
    REPORT_NONE,
    REPORT_TABLE
};

struct settings {
    uint32_t report;           /* enum report */
    uint32_t strict;
    uint32_t route;            /* enum fanin_route, or FANIN_ROUTE_AUTO */
    uint32_t slots;            /* segment buffers of MPI_COMM_WORLD's job on each device */
    uint32_t join_ms;
    uint32_t tune;             /* measure thresholds in MPI_Init; rank 0 has the file's name */
    uint32_t join;             /* enum join: when communicators join */
    uint32_t order;            /* job flags for the order of floating-point sums */
    char thresholds[THRESHOLDS_CAPACITY]; /* the shipped ones, those of `fanin tune`, FANIN_MPI_THRESHOLDS */
};

extern struct settings shim_settings;

/* Read the FANIN_MPI_ variables, FANIN_ORDER and FANIN_ROUTE (docs/mpi.md). */
void shim_read_settings(void);
#endif
