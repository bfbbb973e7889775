/* A rank takes a NIC of its host. A host with several NICs plays several nodes: ranks take the NICs in even blocks. The
 * switches above a NIC are in a file of `fanin fabric up`, or in $FANIN_SWITCHES, separated by ',', and $FANIN_RING. */
#define _GNU_SOURCE
#include "comm/device.h"
#include "report.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROW 512

struct device shim_device;

/* The NIC of rank `rank`: blocks of consecutive ranks, the first ones longer, as in `fanin run`. */
static int choice_of(int rank, int ranks, int choices)
{
    int length = ranks / choices, longer = ranks % choices;

    if (rank < longer * (length + 1))
        return rank / (length + 1);
    return longer + (rank - longer * (length + 1)) / length;
}

int shim_fabric_is_elsewhere(void)
{
    struct fanin_nic nics[FANIN_MAX_NICS];
    uint32_t elsewhere;

    return fanin_find_nics(nics, &elsewhere) == 0 && elsewhere;
}

static int find_nic(int rank, int ranks, struct fanin_nic *found)
{
    struct fanin_nic nics[FANIN_MAX_NICS];
    uint32_t elsewhere, count = fanin_find_nics(nics, &elsewhere);

    if (count)
        *found = nics[choice_of(rank, ranks, (int)count)];
    return count != 0;
}

/* The variables override the file. */
static void read_switches(struct fanin_place *place)
{
    const char *switches = getenv("FANIN_SWITCHES"), *ring = getenv("FANIN_RING");
    char text[MAX_ROW];

    if (!switches)
        return;
    snprintf(text, sizeof text, "0.0.0.0 %.20s %.400s", ring && *ring ? ring : "0", switches);
    for (char *comma = text; (comma = strchr(comma, ','));)
        *comma = ' ';
    if (fanin_place_of_text(text, place))
        shim_say("BAD_SETTING: FANIN_SWITCHES is %.100s, FANIN_RING %.20s: %s; write addresses separated by ',', and a "
                 "number", switches, ring ? ring : "not set", fanin_complaint());
}

/* Whether the device can access the program's ordinary memory. */
static int has_process_memory(void)
{
    int descriptor = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0;
}

enum fanin_status shim_open_device(int rank, int ranks)
{
    enum fanin_status status;
    struct fanin_nic nic;

    if (!find_nic(rank, ranks, &nic))
        return FANIN_NO_DEVICE;
    if (!has_process_memory())
        return FANIN_PERMISSION_DENIED;
    status = fanin_open(nic.socket, &shim_device.context);
    if (status != FANIN_SUCCESS)
        return status;
    shim_device.place = nic.place;
    read_switches(&shim_device.place);
    shim_device.place.address = fanin_limits(shim_device.context)->address;
    return FANIN_SUCCESS;
}

void shim_close_device(void)
{
    if (shim_device.context)
        fanin_close(shim_device.context);
    shim_device.context = NULL;
}
