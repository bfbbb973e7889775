/* Placement. $FANIN_SOCKET names the socket of this node's NIC, or several with ':' between. Without it they are those of
 * the fabric `default` that `fanin fabric up` has brought up. Of several a rank takes the one with an address of its host
 * (or network namespace); where several are there, one machine plays several nodes, and ranks take them in even blocks.
 *
 * What lies above a NIC stands in the file `ways` beside its socket, which `fanin fabric up` writes: a row
 * "SOCKET ADDRESS RING SWITCH...", the lowest switch first, RING 0 where there is none. Elsewhere $FANIN_SWITCHES has the
 * switches, with ',' between, and $FANIN_RING the ring.
 */
#define _GNU_SOURCE
#include "device.h"
#include "staging.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ROW 512
#define MAX_NICS 64

struct device fanin_device;

struct row {
    char socket[MAX_PATH];
    struct place place;
};

static uint32_t address_of(const char *text)
{
    struct in_addr address;

    return inet_pton(AF_INET, text, &address) == 1 ? ntohl(address.s_addr) : 0;
}

static void add_switches(struct place *place, char *text, const char *between)
{
    char *rest;

    for (char *word = strtok_r(text, between, &rest); word; word = strtok_r(NULL, between, &rest)) {
        uint32_t address = address_of(word);
        if (address && place->hops < FANIN_MAX_HOPS)
            place->hop[place->hops++] = address;
    }
}

/* Whether an address belongs to this host (or network namespace). */
static int is_local(uint32_t address)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bound;

    bound = descriptor >= 0 && bind(descriptor, (struct sockaddr *)&name, sizeof name) == 0;
    if (descriptor >= 0)
        close(descriptor);
    return bound;
}

static int parse_row(const char *folder, char *line, struct row *row)
{
    char *rest, *name = strtok_r(line, " \n", &rest), *address = strtok_r(NULL, " \n", &rest);
    char *ring = strtok_r(NULL, " \n", &rest);

    if (!ring || *name == '#')
        return 0;
    *row = (struct row){.place = {.address = address_of(address), .ring = (uint32_t)strtoul(ring, NULL, 10)}};
    add_switches(&row->place, rest, " \n");
    return snprintf(row->socket, sizeof row->socket, "%s/%s", folder, name) < MAX_PATH;
}

static int read_ways(const char *folder, struct row *rows)
{
    char path[MAX_PATH], line[MAX_ROW];
    int count = 0;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/ways", folder) >= MAX_PATH || !(file = fopen(path, "re")))
        return 0;
    while (count < MAX_NICS && fgets(line, sizeof line, file))
        count += parse_row(folder, line, &rows[count]);
    fclose(file);
    return count;
}

/* Which of `choices` rank `rank` takes: blocks of consecutive ranks, the first ones longer, as `fanin run` has them. */
static int choice_of(int rank, int ranks, int choices)
{
    int length = ranks / choices, longer = ranks % choices;

    if (rank < longer * (length + 1))
        return rank / (length + 1);
    return length ? longer + (rank - longer * (length + 1)) / length : 0;
}

/* What lies above a NIC, by the file beside its socket; nothing where there is no such file. */
static struct place way_of(const char *socket)
{
    char folder[MAX_PATH], *end;
    struct row rows[MAX_NICS];
    int count;

    strcpy(folder, socket);
    end = strrchr(folder, '/');
    if (end)
        *end = 0;
    count = read_ways(end ? folder : ".", rows);
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].socket, socket))
            return rows[i].place;
    return (struct place){0};
}

/* Leave out the NICs that are known to be of other hosts, unless that leaves none. */
static int keep_local(struct row *rows, int count)
{
    int local = 0;

    for (int i = 0; i < count; i++)
        if (!rows[i].place.address || is_local(rows[i].place.address))
            rows[local++] = rows[i];
    return local ? local : count;
}

static int from_environment(const char *sockets, int rank, int ranks)
{
    char *list = strdup(sockets), *rest;
    struct row rows[MAX_NICS];
    int count = 0;

    for (char *word = list ? strtok_r(list, ":", &rest) : NULL; word; word = strtok_r(NULL, ":", &rest))
        if (count < MAX_NICS && snprintf(rows[count].socket, MAX_PATH, "%s", word) < MAX_PATH)
            rows[count++].place = way_of(word);
    free(list);
    if (!count)
        return 0;
    count = keep_local(rows, count);
    strcpy(fanin_device.socket, rows[choice_of(rank, ranks, count)].socket);
    return 1;
}

static int from_fabric(int rank, int ranks)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[MAX_PATH];
    struct row rows[MAX_NICS];
    int count, local = 0;

    if (runtime && *runtime)
        snprintf(folder, sizeof folder, "%.200s/fanin/default", runtime);
    else
        snprintf(folder, sizeof folder, "/tmp/fanin-%u/default", (unsigned)getuid());
    count = read_ways(folder, rows);
    for (int i = 0; i < count; i++)
        if (is_local(rows[i].place.address))
            rows[local++] = rows[i];
    if (!local)
        return 0;
    strcpy(fanin_device.socket, rows[choice_of(rank, ranks, local)].socket);
    return 1;
}

/* What lies above the NIC whose socket has been found. */
static void find_way(void)
{
    const char *switches = getenv("FANIN_SWITCHES"), *ring = getenv("FANIN_RING");
    struct place *place = &fanin_device.place;
    char *list;

    *place = way_of(fanin_device.socket);
    if (switches && (list = strdup(switches))) {
        *place = (struct place){.ring = ring ? (uint32_t)strtoul(ring, NULL, 10) : 0};
        add_switches(place, list, ",");
        free(list);
    }
}

/* Without it a device could not read the program's ordinary memory. */
static int has_process_memory(void)
{
    int descriptor = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0;
}

enum fanin_status fanin_open_device(int rank, int ranks)
{
    const char *sockets = getenv("FANIN_SOCKET");
    enum fanin_status status;

    if (!(sockets && *sockets ? from_environment(sockets, rank, ranks) : from_fabric(rank, ranks)))
        return FANIN_NO_DEVICE;
    if (!has_process_memory())
        return FANIN_PERMISSION_DENIED;
    find_way();
    status = fanin_connect(fanin_device.socket, &fanin_device.context);
    if (status != FANIN_SUCCESS)
        return status;
    status = fanin_attach(fanin_device.context, &fanin_device.limits);
    if (status != FANIN_SUCCESS) {
        fanin_close_device();
        return status;
    }
    fanin_device.place.address = fanin_device.limits.address;
    fanin_staging_begin(fanin_device.context);
    return FANIN_SUCCESS;
}

void fanin_close_device(void)
{
    if (fanin_device.context)
        fanin_close(fanin_device.context);
    fanin_device.context = NULL;
}

const char *fanin_status_name(enum fanin_status status)
{
    static const char *const names[] = {
        [FANIN_SUCCESS] = "SUCCESS", [FANIN_PENDING] = "PENDING", [FANIN_BUFFER_ERROR] = "BUFFER_ERROR",
        [FANIN_LOCAL_PROTECTION_ERROR] = "LOCAL_PROTECTION_ERROR", [FANIN_PEER_LOST] = "PEER_LOST",
        [FANIN_TIMEOUT] = "TIMEOUT", [FANIN_OP_MISMATCH] = "OP_MISMATCH", [FANIN_NOT_CONFIGURED] = "NOT_CONFIGURED",
        [FANIN_JID_IN_USE] = "JID_IN_USE", [FANIN_NO_RESOURCES] = "NO_RESOURCES", [FANIN_ABORTED] = "ABORTED",
        [FANIN_FLUSHED] = "FLUSHED", [FANIN_NOT_SUPPORTED] = "NOT_SUPPORTED",
        [FANIN_INVALID_REQUEST] = "INVALID_REQUEST", [FANIN_VERSION_MISMATCH] = "VERSION_MISMATCH",
        [FANIN_DEVICE_LOST] = "DEVICE_LOST", [FANIN_QUEUE_FULL] = "QUEUE_FULL", [FANIN_NO_DEVICE] = "NO_DEVICE",
        [FANIN_PERMISSION_DENIED] = "PERMISSION_DENIED", [FANIN_MEMBERS_MISMATCH] = "MEMBERS_MISMATCH",
        [FANIN_CQ_OVERRUN] = "CQ_OVERRUN", [FANIN_TOO_FEW_LANES] = "TOO_FEW_LANES"};

    return status < sizeof names / sizeof names[0] && names[status] ? names[status] : "UNKNOWN";
}
