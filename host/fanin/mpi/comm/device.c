/* $FANIN_SOCKET names the socket of this node's NIC, or several sockets with ':' between. Without it the sockets
 * are those of the fabric `default` that `fanin fabric up` has brought up. Of several sockets a rank takes the one
 * whose NIC has an address of its host (or network namespace). If several NICs have one, the machine plays several
 * nodes, and ranks take the NICs in even blocks.
 *
 * `fanin fabric up` writes a file `uplinks` beside the sockets, with a row "SOCKET ADDRESS RING SWITCH..." for each
 * NIC: the ring that it is in (0: none), and the offloading switches above it, the lowest first. On other machines
 * $FANIN_SWITCHES names the switches, with ',' between, and $FANIN_RING the ring.
 */
#define _GNU_SOURCE
#include "comm/device.h"
#include "report.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_PATH 256
#define MAX_ROW 512
#define MAX_NICS 64

struct device shim_device;

struct row {
    char socket[MAX_PATH];
    struct fanin_place place;
};

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

/* A row that makes no sense is none. */
static int parse_row(const char *folder, const char *line, struct row *row)
{
    int length = (int)strcspn(line, " ");

    return *line != '#' && !fanin_place_of_text(line + length, &row->place) &&
           snprintf(row->socket, sizeof row->socket, "%s/%.*s", folder, length, line) < MAX_PATH;
}

static int read_rows(const char *folder, struct row *rows)
{
    char path[MAX_PATH], line[MAX_ROW];
    int count = 0;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/uplinks", folder) >= MAX_PATH || !(file = fopen(path, "re")))
        return 0;
    while (count < MAX_NICS && fgets(line, sizeof line, file))
        count += parse_row(folder, line, &rows[count]);
    fclose(file);
    return count;
}

/* The place of a NIC in the fabric, by the file beside its socket; all 0 if there is no such file. */
static struct fanin_place place_of(const char *socket)
{
    char folder[MAX_PATH], *end;
    struct row rows[MAX_NICS];
    int count;

    strcpy(folder, socket);
    end = strrchr(folder, '/');
    if (end)
        *end = 0;
    count = read_rows(end ? folder : ".", rows);
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].socket, socket))
            return rows[i].place;
    return (struct fanin_place){0};
}

/* The NICs whose sockets are named. */
static int read_sockets(const char *sockets, struct row *rows)
{
    char *list = strdup(sockets), *rest;
    int count = 0;

    for (char *word = list ? strtok_r(list, ":", &rest) : NULL; word; word = strtok_r(NULL, ":", &rest))
        if (count < MAX_NICS && snprintf(rows[count].socket, MAX_PATH, "%s", word) < MAX_PATH)
            rows[count++].place = place_of(word);
    free(list);
    return count;
}

/* The NICs of the fabric `default`. */
static int read_fabric(struct row *rows)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[MAX_PATH];

    if (runtime && *runtime)
        snprintf(folder, sizeof folder, "%.200s/fanin/default", runtime);
    else
        snprintf(folder, sizeof folder, "/tmp/fanin-%u/default", (unsigned)getuid());
    return read_rows(folder, rows);
}

/* Keep the NICs of this host. A NIC whose address is not known, 0, may be one. Returns how many there are. */
static int keep_local(struct row *rows, int count)
{
    int local = 0;

    for (int i = 0; i < count; i++)
        if (!rows[i].place.address || is_local(rows[i].place.address))
            rows[local++] = rows[i];
    return local;
}

/* Which of `choices` NICs rank `rank` takes: blocks of consecutive ranks, the first ones longer, as in `fanin run`. */
static int choice_of(int rank, int ranks, int choices)
{
    int length = ranks / choices, longer = ranks % choices;

    if (rank < longer * (length + 1))
        return rank / (length + 1);
    return longer + (rank - longer * (length + 1)) / length;
}

int shim_fabric_is_elsewhere(void)
{
    struct row rows[MAX_NICS];
    int count = read_fabric(rows);

    return count && !keep_local(rows, count);
}

/* Of named NICs that are all in other hosts a rank takes one all the same. */
static int find_nic(int rank, int ranks, struct row *found)
{
    const char *sockets = getenv("FANIN_SOCKET");
    int named = sockets && *sockets, count, local;
    struct row rows[MAX_NICS];

    count = named ? read_sockets(sockets, rows) : read_fabric(rows);
    local = keep_local(rows, count);
    if (!local && named)
        local = count;
    if (local)
        *found = rows[choice_of(rank, ranks, local)];
    return local != 0;
}

/* The user may say what lies above the NIC, in place of the file. */
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
        shim_say("BAD_SETTING: FANIN_SWITCHES is %.100s, FANIN_RING %.20s: %s; write addresses with ',' between, and a "
                 "number", switches, ring ? ring : "not set", fanin_complaint());
}

/* Without it a device can not read ordinary memory of the program. */
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
    struct row nic;

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
