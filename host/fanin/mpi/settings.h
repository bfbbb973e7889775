/* Settings from the environment of rank 0, which broadcasts them to all ranks as they lie in memory. */
#ifndef FANIN_MPI_SETTINGS_H
#define FANIN_MPI_SETTINGS_H
#include "thresholds.h"

enum { THRESHOLDS_CAPACITY = 16384 };

/* When a communicator joins. */
enum join {
    JOIN_AUTO,                 /* when its calls are worth a job */
    JOIN_EARLY,                /* when it is made */
    JOIN_LATE                  /* when it has had one call that could be offloaded */
};

/* What is printed about calls at the end. */
enum report {
    REPORT_IDLE,               /* a line, if no call was offloaded */
    REPORT_NONE,
    REPORT_TABLE
};

struct settings {
    uint32_t report;           /* enum report */
    uint32_t strict;
    uint32_t route;            /* enum fanin_route, or FANIN_ROUTE_AUTO */
    uint32_t slots;            /* segment buffers that the job of MPI_COMM_WORLD asks of each device */
    uint32_t join_ms;
    uint32_t tune;             /* measure thresholds in MPI_Init; rank 0 knows the file */
    uint32_t join;             /* enum join: when communicators join */
    uint32_t order;            /* of devices that add floating-point numbers: flags of a job */
    char thresholds[THRESHOLDS_CAPACITY]; /* the shipped ones, those of `fanin tune`, FANIN_MPI_THRESHOLDS */
};

extern struct settings shim_settings;

/* Read FANIN_MPI_REPORT, FANIN_MPI_STRICT, FANIN_MPI_THRESHOLDS, FANIN_MPI_TUNE, FANIN_MPI_SLOTS, FANIN_MPI_JOIN,
 * FANIN_MPI_JOIN_SECONDS, FANIN_ORDER, FANIN_ROUTE. */
void shim_read_settings(void);
#endif
