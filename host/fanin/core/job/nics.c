#define _GNU_SOURCE
#include "device/remote.h"
#include "fanin.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ROW 512
#define MAX_PATH sizeof ((struct fanin_nic *)0)->socket
#define MAX_SOCKETS 320 /* characters of one fabric's text */

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

/* Returns 0 for a row that makes no sense. */
static uint32_t parse_row(const char *folder, const char *line, struct fanin_nic *nic)
{
    int length = (int)strcspn(line, " ");

    return *line != '#' && !fanin_place_of_text(line + length, &nic->place) &&
           snprintf(nic->socket, MAX_PATH, "%s/%.*s", folder, length, line) < (int)MAX_PATH;
}

static uint32_t read_rows(const char *folder, struct fanin_nic *nics)
{
    char path[MAX_PATH], line[MAX_ROW];
    uint32_t count = 0;
    FILE *file;

    if (snprintf(path, MAX_PATH, "%s/uplinks", folder) >= (int)MAX_PATH || !(file = fopen(path, "re")))
        return 0;
    while (count < FANIN_MAX_NICS && fgets(line, sizeof line, file))
        count += parse_row(folder, line, &nics[count]);
    fclose(file);
    return count;
}

/* The place of a NIC in the fabric, from the file beside its socket; all 0 without one. */
static struct fanin_place place_of(const char *socket)
{
    struct fanin_nic nics[FANIN_MAX_NICS];
    char folder[MAX_PATH], *end;
    uint32_t count;

    strcpy(folder, socket);
    end = strrchr(folder, '/');
    if (end)
        *end = 0;
    count = read_rows(end ? folder : ".", nics);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(nics[i].socket, socket))
            return nics[i].place;
    return (struct fanin_place){0};
}

static uint32_t read_sockets(const char *sockets, struct fanin_nic *nics)
{
    uint32_t count = 0;
    size_t length;

    for (const char *word = sockets; *word && count < FANIN_MAX_NICS; word += length + (word[length] == ':')) {
        length = fanin_is_remote_address(word) ? fanin_remote_address_length(word) : strcspn(word, ":");
        if (length && snprintf(nics[count].socket, MAX_PATH, "%.*s", (int)length, word) < (int)MAX_PATH) {
            nics[count].place = place_of(nics[count].socket);
            count++;
        }
    }
    return count;
}

static uint32_t read_fabric(struct fanin_nic *nics)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[MAX_PATH];

    if (runtime && *runtime)
        snprintf(folder, sizeof folder, "%.200s/fanin/default", runtime);
    else
        snprintf(folder, sizeof folder, "/tmp/fanin-%u/default", (unsigned)getuid());
    return read_rows(folder, nics);
}

uint32_t fanin_find_nics(struct fanin_nic nics[FANIN_MAX_NICS], uint32_t *elsewhere)
{
    const char *sockets = getenv("FANIN_SOCKET");
    int named = sockets && *sockets;
    uint32_t count = named ? read_sockets(sockets, nics) : read_fabric(nics), local = 0;

    for (uint32_t i = 0; i < count; i++)
        if (!nics[i].place.address || is_local(nics[i].place.address))
            nics[local++] = nics[i];
    if (local == 0 && named)
        local = count;
    *elsewhere = count - local;
    return local;
}

/* Append "'NAME' (FANIN_SOCKET=SOCKET:...)" to `words`, if the sockets of that fabric exist. */
static void append_fabric(const char *root, const char *name, char *words, size_t capacity)
{
    struct fanin_nic nics[FANIN_MAX_NICS];
    char folder[MAX_PATH], sockets[MAX_SOCKETS] = "";
    uint32_t count = 0;

    if (*name != '.' && snprintf(folder, MAX_PATH, "%s/%s", root, name) < (int)MAX_PATH)
        count = read_rows(folder, nics);
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(sockets);
        if (access(nics[i].socket, F_OK) ||
            snprintf(sockets + length, sizeof sockets - length, "%s%s", i ? ":" : "", nics[i].socket) >=
                (int)(sizeof sockets - length))
            return;
    }
    if (count && strlen(words) + strlen(name) + strlen(sockets) + 24 < capacity)
        sprintf(words + strlen(words), "%s'%s' (FANIN_SOCKET=%s)", *words ? ", " : "", name, sockets);
}

static void append_fabrics(const char *root, char *words, size_t capacity)
{
    DIR *folder = opendir(root);

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        append_fabric(root, entry->d_name, words, capacity);
    if (folder)
        closedir(folder);
}

void fanin_name_fabrics(char *words, size_t capacity)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char own[MAX_PATH] = "", session[MAX_PATH], other[MAX_PATH];

    *words = 0;
    if (runtime && *runtime && snprintf(own, sizeof own, "%s/fanin", runtime) < (int)sizeof own)
        append_fabrics(own, words, capacity);
    snprintf(session, sizeof session, "/run/user/%u/fanin", (unsigned)getuid());
    snprintf(other, sizeof other, "/tmp/fanin-%u", (unsigned)getuid());
    if (strcmp(own, session))
        append_fabrics(session, words, capacity);
    append_fabrics(other, words, capacity);
}
