/* A job as text: the file that $FANIN_JOB names. A line is a field and its values; '#' at the beginning of a word
 * starts a comment. `fanin_wire/job_text.py` writes the file. */
#define _GNU_SOURCE
#include "complaint.h"
#include "fanin.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 512, MAX_LINES = 1 << 20 };

struct choice {
    const char *name;
    uint32_t code;
};

static const struct choice routes[] = {{"auto", FANIN_ROUTE_AUTO},
                                       {"tree", FANIN_ROUTE_TREE},
                                       {"ring", FANIN_ROUTE_RING},
                                       {"local", FANIN_ROUTE_LOCAL},
                                       {NULL, 0}};
static const struct choice modes[] = {
    {"none", 0},
    {"run", FANIN_JOB_REPRODUCIBLE_RUN},
    {"shape", FANIN_JOB_REPRODUCIBLE_RUN | FANIN_JOB_REPRODUCIBLE_SHAPE | FANIN_JOB_WIDE},
    {NULL, 0}};
static const struct choice truths[] = {{"0", 0}, {"1", FANIN_JOB_WIDE}, {NULL, 0}};

/* The lines that each file has once, beside its lines "rank". */
static const struct part {
    const char *name;
    size_t offset;                /* in struct fanin_job */
    const struct choice *choices; /* codes to be or-ed; NULL: a number */
} parts[] = {
    {"jid", offsetof(struct fanin_job, jid), NULL},
    {"key", offsetof(struct fanin_job, key), NULL},
    {"route", offsetof(struct fanin_job, route), routes},
    {"chunk", offsetof(struct fanin_job, chunk), NULL},
    {"slots", offsetof(struct fanin_job, slots), NULL},
    {"reproducible", offsetof(struct fanin_job, flags), modes},
    {"wide", offsetof(struct fanin_job, flags), truths},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* The rest of a line, from a word on. */
struct line {
    char word[48];                /* empty: end of line; a longer word comes in pieces */
    const char *rest;
};

static void next_word(struct line *line)
{
    int length = 0;

    if (sscanf(line->rest, " %47s%n", line->word, &length) == 1 && *line->word != '#')
        line->rest += length;
    else
        *line->word = 0;
}

static struct line begin(const char *text)
{
    struct line line = {.rest = text};

    next_word(&line);
    return line;
}

/* Each of these reads a word. */
static enum fanin_status read_number(struct line *line, uint32_t *number)
{
    unsigned long long read;
    char *rest;

    read = strtoull(line->word, &rest, 10);
    if (!isdigit((unsigned char)*line->word) || *rest || read > UINT32_MAX)
        return fanin_complain("'%s' is not a number below 4294967296", line->word);
    *number = (uint32_t)read;
    next_word(line);
    return FANIN_SUCCESS;
}

static enum fanin_status read_address(struct line *line, uint32_t *address)
{
    struct in_addr read;

    if (inet_pton(AF_INET, line->word, &read) != 1)
        return fanin_complain("'%s' is not an IPv4 address", line->word);
    *address = ntohl(read.s_addr);
    next_word(line);
    return FANIN_SUCCESS;
}

static enum fanin_status read_choice(struct line *line, const struct part *part, uint32_t *codes)
{
    const struct choice *choice = part->choices;

    while (choice->name && strcmp(choice->name, line->word))
        choice++;
    if (!choice->name)
        return fanin_complain("'%s' is not a value of '%s'", line->word, part->name);
    *codes |= choice->code;
    next_word(line);
    return FANIN_SUCCESS;
}

static enum fanin_status read_part(struct line *line, struct fanin_job *job, uint32_t *seen)
{
    const struct part *part = parts;
    uint32_t *number;

    while (part < parts + PARTS && strcmp(part->name, line->word))
        part++;
    if (part == parts + PARTS)
        return fanin_complain("'%s' is not a field of a job", line->word);
    if (*seen >> (part - parts) & 1)
        return fanin_complain("'%s' is given twice", part->name);
    *seen |= 1u << (part - parts);
    number = (uint32_t *)((char *)job + part->offset);
    next_word(line);
    if (part->choices ? read_choice(line, part, number) : read_number(line, number))
        return FANIN_INVALID_REQUEST;
    return *line->word ? fanin_complain("'%s' is one word too many", line->word) : FANIN_SUCCESS;
}

static enum fanin_status read_place(struct line *line, struct fanin_place *place)
{
    struct fanin_place read = {0};

    if (read_address(line, &read.address) || read_number(line, &read.ring))
        return FANIN_INVALID_REQUEST;
    while (*line->word) {
        if (read.hops == FANIN_MAX_HOPS)
            return fanin_complain("'%s' is one switch too many; the limit is %d", line->word, FANIN_MAX_HOPS);
        if (read_address(line, &read.hop[read.hops++]))
            return FANIN_INVALID_REQUEST;
    }
    *place = read;
    return FANIN_SUCCESS;
}

enum fanin_status fanin_place_of_text(const char *text, struct fanin_place *place)
{
    struct line line = begin(text);

    return read_place(&line, place);
}

static enum fanin_status read_rank(struct line *line, struct fanin_job *job)
{
    struct fanin_place place, *places;

    next_word(line);
    if (read_place(line, &place))
        return FANIN_INVALID_REQUEST;
    if (!place.address)
        return fanin_complain("'0.0.0.0' is not the address of a NIC");
    places = realloc((void *)job->places, (job->ranks + 1ul) * sizeof *places);
    if (!places)
        return fanin_complain("there is no memory for %u ranks", job->ranks + 1);
    places[job->ranks++] = place;
    job->places = places;
    return FANIN_SUCCESS;
}

static enum fanin_status read_line(const char *text, struct fanin_job *job, uint32_t *seen)
{
    struct line line = begin(text);

    if (!strchr(text, '\n'))
        return fanin_complain("the line is longer than %d bytes, has a byte 0, or does not end", MAX_LINE - 2);
    if (!*line.word)
        return FANIN_SUCCESS;
    return strcmp(line.word, "rank") ? read_part(&line, job, seen) : read_rank(&line, job);
}

static enum fanin_status require_all(const struct fanin_job *job, uint32_t seen, const char *path)
{
    for (uint32_t part = 0; part < PARTS; part++)
        if (!(seen >> part & 1))
            return fanin_complain("'%s' is missing in %s", parts[part].name, path);
    return job->ranks ? FANIN_SUCCESS : fanin_complain("'rank' is missing in %s", path);
}

/* Read a file to its end or its first error. `job` has what was read until then. */
static enum fanin_status read_lines(FILE *file, const char *path, struct fanin_job *job)
{
    char text[MAX_LINE], cause[160];
    uint32_t lines = 0, seen = 0;

    while (fgets(text, sizeof text, file)) {
        lines++;
        if (lines > MAX_LINES ? fanin_complain("the file is too long") : read_line(text, job, &seen)) {
            snprintf(cause, sizeof cause, "%s", fanin_complaint());
            return fanin_complain("%s (line %u of %s)", cause, lines, path);
        }
    }
    return ferror(file) ? fanin_complain("%s can not be read: %s", path, strerror(errno))
                        : require_all(job, seen, path);
}

enum fanin_status fanin_job_of_file(const char *path, struct fanin_job *job)
{
    struct fanin_job read = {0};
    FILE *file = fopen(path, "re");
    enum fanin_status status;

    if (!file)
        return fanin_complain("%s can not be read: %s", path, strerror(errno));
    status = read_lines(file, path, &read);
    fclose(file);
    if (status)
        free((void *)read.places);
    else
        *job = read;
    return status;
}

enum fanin_status fanin_job_of_environment(struct fanin_job *job, uint32_t *rank)
{
    const char *path = getenv("FANIN_JOB"), *number = getenv("FANIN_RANK");
    struct fanin_job read;
    struct line line;
    uint32_t own;

    if (!path || !number)
        return fanin_complain("the environment lacks %s; start the program with `fanin run -n N -- PROGRAM` (--mpi is "
                              "for programs of an MPI)",
                              path ? "FANIN_RANK" : "FANIN_JOB");
    if (fanin_job_of_file(path, &read))
        return FANIN_INVALID_REQUEST;
    line = begin(number);
    if (read_number(&line, &own) || *line.word || own >= read.ranks) {
        free((void *)read.places);
        return fanin_complain("FANIN_RANK is '%s', not one of the %u ranks of the job", number, read.ranks);
    }
    *job = read;
    *rank = own;
    return FANIN_SUCCESS;
}
