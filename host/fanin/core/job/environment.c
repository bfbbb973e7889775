/* The job that `fanin run` has described for a program in C: a text file, which $FANIN_JOB_PLACES names.
 *
 *     jid KEY route chunk slots flags ranks
 *     address ring switch ...              one line for each rank; addresses as numbers in host order, lowest switch first
 *
 * All are decimal numbers, between white space.
 */
#include "fanin.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS (1u << 20)
#define MAX_LINE 512

static int read_place(const char *line, struct fanin_place *place)
{
    char *rest;

    *place = (struct fanin_place){.address = (uint32_t)strtoul(line, &rest, 10)};
    place->ring = (uint32_t)strtoul(rest, &rest, 10);
    for (uint32_t hop; (hop = (uint32_t)strtoul(rest, &rest, 10)) != 0;) {
        if (place->hops == FANIN_MAX_HOPS)
            return 0;
        place->hop[place->hops++] = hop;
    }
    return place->address != 0;
}

static struct fanin_place *read_places(FILE *file, uint32_t ranks)
{
    struct fanin_place *places = calloc(ranks, sizeof *places);
    char line[MAX_LINE];
    uint32_t rank = 0;

    while (places && rank < ranks && fgets(line, sizeof line, file) && read_place(line, &places[rank]))
        rank++;
    if (rank == ranks)
        return places;
    free(places);
    return NULL;
}

enum fanin_status fanin_job_of_environment(struct fanin_job *job, uint32_t *rank)
{
    const char *path = getenv("FANIN_JOB_PLACES"), *number = getenv("FANIN_RANK");
    FILE *file = path && number ? fopen(path, "re") : NULL;
    struct fanin_job read = {0};
    char line[MAX_LINE];

    if (!file)
        return FANIN_INVALID_REQUEST;
    if (fgets(line, sizeof line, file) &&
        sscanf(line, "%u %u %u %u %u %u %u", &read.jid, &read.key, &read.route, &read.chunk, &read.slots, &read.flags,
               &read.ranks) == 7 &&
        read.ranks && read.ranks <= MAX_RANKS)
        read.places = read_places(file, read.ranks);
    fclose(file);
    *rank = (uint32_t)strtoul(number, NULL, 10);
    if (!read.places || *rank >= read.ranks) {
        free((void *)read.places);
        return FANIN_INVALID_REQUEST;
    }
    *job = read;
    return FANIN_SUCCESS;
}
