/* The rights of this process to its mapped memory. The device uses /proc/PID/mem, which ignores them: it could change a
 * constant. */
#define _GNU_SOURCE
#include "memory/rights.h"
#include "complaint.h"
#include "device/connection.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct mapping {
    uint64_t start, end;
    char rights[5];           /* "rw-p" */
};

/* From `covered` to `end` all memory must be mapped, with `right` at `place` of the mappings' rights. */
static enum fanin_status check_mappings(FILE *maps, uint64_t covered, uint64_t end, int place, char right)
{
    struct mapping mapping;
    char *line = NULL;
    size_t size = 0;

    while (covered < end && getline(&line, &size, maps) > 0) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &mapping.start, &mapping.end, mapping.rights) != 3 ||
            mapping.end <= covered)
            continue;
        if (mapping.start > covered || mapping.rights[place] != right)
            break;
        covered = mapping.end;
    }
    free(line);
    if (covered >= end)
        return FANIN_SUCCESS;
    fanin_complain("the memory at %#llx is not mapped, or this process may not %s it", (unsigned long long)covered,
                   right == 'w' ? "write" : "read");
    return FANIN_LOCAL_PROTECTION_ERROR;
}

enum fanin_status fanin_check_rights(const void *address, uint64_t length, int is_written)
{
    uint64_t start = (uintptr_t)address;
    enum fanin_status status;
    FILE *maps;

    if (length > UINT64_MAX - start) /* the device refuses it */
        return FANIN_SUCCESS;
    maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return errno == ENOENT || errno == EACCES ? FANIN_LOCAL_PROTECTION_ERROR : fanin_status_of_errno(errno);
    status = check_mappings(maps, start, start + length, is_written ? 1 : 0, is_written ? 'w' : 'r');
    fclose(maps);
    return status;
}
