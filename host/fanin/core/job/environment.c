/* The job that `fanin run` has described: a file of JSON, which $FANIN_JOB names, and the rank, which is $FANIN_RANK. */
#define _GNU_SOURCE
#include "complaint.h"
#include "fanin.h"
#include "job/json.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_FILE = 16 << 20 };

static uint32_t read_address(struct json *json)
{
    char text[MAX_NAME];
    struct in_addr address = {0};

    json_string(json, text, sizeof text);
    if (inet_pton(AF_INET, text, &address) != 1)
        json->failed = 1;
    return ntohl(address.s_addr);
}

static void read_switches(struct json *json, struct fanin_place *place)
{
    for (int first = 1; json_next_element(json, &first);) {
        if (place->hops == FANIN_MAX_HOPS)
            json->failed = 1;
        else
            place->hop[place->hops++] = read_address(json);
    }
}

/* Room for `rank` among the places. */
static struct fanin_place *place_of(struct fanin_job *job, uint64_t rank)
{
    struct fanin_place *places = (struct fanin_place *)job->places;

    if (rank >= UINT32_MAX / sizeof *places)
        return NULL;
    if (rank >= job->ranks) {
        places = realloc(places, (rank + 1) * sizeof *places);
        if (!places)
            return NULL;
        memset(&places[job->ranks], 0, (rank + 1 - job->ranks) * sizeof *places);
        job->places = places;
        job->ranks = (uint32_t)rank + 1;
    }
    return &places[rank];
}

/* A node stands for the place of each of its ranks: these are read once more when the rest of it is known. */
static void read_node(struct json *json, struct fanin_job *job)
{
    struct fanin_place place = {0};
    struct json ranks = {"", 1};
    char name[MAX_NAME];

    for (int first = 1; json_next_member(json, &first, name, sizeof name);) {
        if (!strcmp(name, "address")) {
            place.address = read_address(json);
        } else if (!strcmp(name, "switches")) {
            read_switches(json, &place);
        } else if (!strcmp(name, "ring")) {
            place.ring = json_word(json, "null") ? 0 : (uint32_t)json_number(json) + 1;
        } else {
            if (!strcmp(name, "ranks"))
                ranks = *json;
            json_skip(json);
        }
    }
    for (int first = 1; json_next_element(&ranks, &first);) {
        struct fanin_place *found = place_of(job, json_number(&ranks));
        if (found)
            *found = place;
        else
            ranks.failed = 1;
    }
    json->failed |= ranks.failed;
}

static uint32_t read_choice(struct json *json, const char *const *names, const uint32_t *codes)
{
    char text[MAX_NAME];

    json_string(json, text, sizeof text);
    for (; *names; names++, codes++)
        if (!strcmp(*names, text))
            return *codes;
    json->failed = 1;
    return 0;
}

static void read_job(struct json *json, struct fanin_job *job)
{
    static const char *const routes[] = {"auto", "tree", "ring", "local", NULL};
    static const uint32_t route_codes[] = {FANIN_ROUTE_AUTO, FANIN_ROUTE_TREE, FANIN_ROUTE_RING, FANIN_ROUTE_LOCAL};
    static const char *const modes[] = {"none", "run", "shape", NULL};
    static const uint32_t mode_flags[] = {
        0, FANIN_JOB_REPRODUCIBLE_RUN, FANIN_JOB_REPRODUCIBLE_RUN | FANIN_JOB_REPRODUCIBLE_SHAPE | FANIN_JOB_WIDE};
    char name[MAX_NAME];

    for (int first = 1; json_next_member(json, &first, name, sizeof name);) {
        if (!strcmp(name, "jid"))
            job->jid = (uint32_t)json_number(json);
        else if (!strcmp(name, "key"))
            job->key = (uint32_t)json_number(json);
        else if (!strcmp(name, "chunk"))
            job->chunk = (uint32_t)json_number(json);
        else if (!strcmp(name, "slots"))
            job->slots = (uint32_t)json_number(json);
        else if (!strcmp(name, "route"))
            job->route = read_choice(json, routes, route_codes);
        else if (!strcmp(name, "reproducible"))
            job->flags |= read_choice(json, modes, mode_flags);
        else if (!strcmp(name, "wide"))
            job->flags |= json_word(json, "true") ? FANIN_JOB_WIDE : (json_skip(json), 0u);
        else if (!strcmp(name, "nodes"))
            for (int node = 1; json_next_element(json, &node);)
                read_node(json, job);
        else
            json_skip(json);
    }
}

/* The text of a file, with a NUL at its end. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(MAX_FILE + 1) : NULL;
    size_t length = text ? fread(text, 1, MAX_FILE, file) : 0;

    if (text)
        text[length] = 0;
    if (file)
        fclose(file);
    return text;
}

static int is_complete(const struct fanin_job *job)
{
    for (uint32_t rank = 0; rank < job->ranks; rank++)
        if (!job->places[rank].address)
            return 0;
    return job->jid && job->ranks;
}

enum fanin_status fanin_job_of_environment(struct fanin_job *job, uint32_t *rank)
{
    const char *path = getenv("FANIN_JOB"), *number = getenv("FANIN_RANK");
    char *text = path && number ? read_file(path) : NULL, *rest;
    struct fanin_job read = {.route = FANIN_ROUTE_AUTO};
    struct json json = {text, 0};
    unsigned long own;

    if (!text) {
        fanin_complain("%s; start the program with `fanin run -n N -- PROGRAM`",
                       !path ? "the environment lacks FANIN_JOB" : !number ? "the environment lacks FANIN_RANK"
                                                                          : "the file that FANIN_JOB names can not be read");
        return FANIN_INVALID_REQUEST;
    }
    read_job(&json, &read);
    free(text);
    own = strtoul(number, &rest, 10);
    if (json.failed || !is_complete(&read) || rest == number || *rest || own >= read.ranks) {
        fanin_complain(json.failed || !is_complete(&read) ? "the file that FANIN_JOB names describes no job"
                                                          : "FANIN_RANK is none of the ranks of the job");
        free((void *)read.places);
        return FANIN_INVALID_REQUEST;
    }
    *job = read;
    *rank = (uint32_t)own;
    return FANIN_SUCCESS;
}
