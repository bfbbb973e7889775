#define _GNU_SOURCE
#include "thresholds.h"
#include "report.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define GROUP_ENDS ";\n#"
#define OFF ((struct range){1, 0})

static const char units[] = "kmg";

const struct choice shim_routes[] = {{"auto", FANIN_ROUTE_AUTO}, {"local", FANIN_ROUTE_LOCAL},
                                     {"tree", FANIN_ROUTE_TREE}, {"ring", FANIN_ROUTE_RING}, {NULL, 0}};

const char shim_shipped_thresholds[] =
    "all=off, requests=0-16m\n" /* longer ones are not cut into parts whose copies overlap with the transfer */
    "local 2: allreduce=2m-, reduce_scatter=16m-, reduce_scatter_block=16m-\n"
    "local 4: allreduce=4m-, reduce=256k-, reduce_scatter=4m-, reduce_scatter_block=4m-, bcast=4m-\n"
    "crowded local 4: allreduce=4k-, reduce=2m-, reduce_scatter=32k-, reduce_scatter_block=32k-, bcast=16m-,"
    " allgather=16m-\n"
    "mpich crowded local 4: allreduce=512-, reduce=4k-32k, reduce_scatter=16m-, reduce_scatter_block=16m-,"
    " allgather=off, allgatherv=16m-, barrier=0-\n"
    "tree 2: allreduce=16m-\n"
    "tree 4: allreduce=32k-, reduce=32k-, reduce_scatter=4k-, reduce_scatter_block=4k-, bcast=256k-, allgather=256k-,"
    " allgatherv=256k-\n"
    "ring 4: allreduce=512-, reduce=512-256k, allgather=512-2m\n"
    "one-host tree: all=off\n"
    "one-host ring: all=off\n";

static int is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !strncasecmp(text, word, length);
}

static uint64_t read_size(const char **text)
{
    char *end;
    uint64_t size = strtoull(*text, &end, 10);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;

    *text = unit ? end + 1 : end;
    return unit ? size << 10 * (unit - units + 1) : size;
}

/* Read "LEAST-MOST", "LEAST-" or "off". Returns 0 on anything else. */
static int read_range(const char **text, struct range *range)
{
    if (!strncasecmp(*text, "off", 3)) {
        *text += 3;
        *range = OFF;
        return 1;
    }
    if (!isdigit((unsigned char)**text))
        return 0;
    range->least = read_size(text);
    if (*(*text)++ != '-')
        return 0;
    range->most = isdigit((unsigned char)**text) ? read_size(text) : UINT64_MAX;
    return range->least <= range->most;
}

/* The range that the first `length` letters of `text` name: a function or REQUESTS; RANGE_COUNT: "all"; -1: unknown. */
static int range_named(const char *text, size_t length)
{
    if (is_word(text, length, "all"))
        return RANGE_COUNT;
    if (is_word(text, length, "requests"))
        return REQUESTS;
    for (int function = 0; function < FUNCTION_COUNT; function++)
        if (is_word(text, length, shim_function_names[function]))
            return function;
    return -1;
}

/* Read a group up to its ":". Returns 0 if it makes no sense. */
static int read_head(const char *text, const char *end, const struct setting *setting, int *holds)
{
    while ((text += strspn(text, " \t")) < end) {
        size_t length = strcspn(text, " \t:");
        const struct choice *route = shim_routes + 1;
        while (route->name && !is_word(text, length, route->name))
            route++;
        if (route->name)
            *holds &= setting->route == route->value;
        else if (is_word(text, length, "one-host"))
            *holds &= setting->on_one_host;
        else if (is_word(text, length, "crowded"))
            *holds &= setting->is_crowded;
        else if (shim_is_family(text, length))
            *holds &= is_word(text, length, shim_abi->name);
        else if (strspn(text, "0123456789") >= length)
            *holds &= strtoul(text, NULL, 10) <= setting->ranks;
        else
            return 0;
        text += length;
    }
    return 1;
}

/* Read "NAME=RANGE, NAME=RANGE" up to the end of the group. Returns NULL, or the place of an error. */
static const char *read_ranges(const char *text, const char *end, int holds, struct range *ranges)
{
    while ((text += strspn(text, ", \t\r")) < end) {
        const char *start = text;
        size_t length = strcspn(text, "=");
        int named = text[length] ? range_named(text, length) : -1;
        struct range range;
        text += length + 1;
        if (named < 0 || !read_range(&text, &range) || (text < end && !strchr(", \t\r", *text)))
            return start;
        for (int i = 0; holds && i < RANGE_COUNT; i++)
            if (i == named || (named == RANGE_COUNT && (i != REQUESTS || range.least <= range.most)))
                ranges[i] = range;
    }
    return NULL;
}

const char *shim_read_thresholds(const char *text, const struct setting *setting, struct range *ranges)
{
    while (*text) {
        const char *end = text + strcspn(text, GROUP_ENDS), *colon = memchr(text, ':', (size_t)(end - text)), *wrong;
        int holds = 1;
        if (colon && !read_head(text, colon, setting, &holds))
            return text;
        wrong = read_ranges(colon ? colon + 1 : text, end, holds, ranges);
        if (wrong)
            return wrong;
        if (*end == '#')
            end += strcspn(end, "\n");
        text = *end ? end + 1 : end;
    }
    return NULL;
}

const char *shim_route_name(uint32_t route)
{
    const struct choice *found = shim_routes;

    while (found->value != route)
        found++;
    return found->name;
}

static int write_size(uint64_t size, char *text, size_t capacity)
{
    int unit = 0;

    while (size && size % 1024 == 0 && units[unit]) {
        size /= 1024;
        unit++;
    }
    return unit ? snprintf(text, capacity, "%llu%c", (unsigned long long)size, units[unit - 1])
                : snprintf(text, capacity, "%llu", (unsigned long long)size);
}

void shim_write_range(const struct range *range, char *text, size_t capacity)
{
    size_t length;

    if (range->least > range->most) {
        snprintf(text, capacity, "off");
        return;
    }
    length = (size_t)write_size(range->least, text, capacity);
    length += (size_t)snprintf(text + length, capacity - length, "-");
    if (range->most < UINT64_MAX)
        write_size(range->most, text + length, capacity - length);
}
