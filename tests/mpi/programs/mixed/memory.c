/* Registered memory, through which the shim copies. */
#include "scenes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of mappings of registered memory with `length` bytes. */
static int regions_of(unsigned long length)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    char line[512];
    int count = 0;

    while (fgets(line, sizeof line, maps))
        count += strstr(line, "fanin-memory") && sscanf(line, "%lx-%lx", &start, &end) == 2 && end - start == length;
    fclose(maps);
    return count;
}

/* Long messages use up the registered memory; short ones get some of it afterwards. */
void change_sizes(void)
{
    enum { MESSAGES = 9, LONG = 16 << 20, SHORT = 100000 };
    static MPI_Request requests[MESSAGES];
    char *data = calloc(MESSAGES, LONG);
    int before;

    for (int i = 0; i < MESSAGES; i++)
        MPI_Ibcast(data + (size_t)i * LONG, LONG, MPI_CHAR, 0, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    before = regions_of(1 << 20);
    expect(regions_of(LONG) > 1, "long messages are not staged");
    data[SHORT - 1] = rank ? 0 : 7;
    MPI_Bcast(data, SHORT, MPI_CHAR, 0, MPI_COMM_WORLD);
    expect(data[SHORT - 1] == 7, "the broadcast is wrong");
    expect(regions_of(1 << 20) > before, "a short message gets no registered memory");
    free(data);
}
