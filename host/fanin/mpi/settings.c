#define _GNU_SOURCE
#include "settings.h"
#include "fanin.h"
#include "report.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define JOIN_SECONDS 60
#define SLOTS 256
#define FEWEST_SLOTS 4 /* of a lease */
#define DEFAULT_THRESHOLDS "all=0-" /* what it costs and gains on one host: docs/mpi.md */

struct settings shim_settings;

static uint64_t read_size(const char **text)
{
    static const char units[] = "kmg";
    char *end;
    uint64_t size = strtoull(*text, &end, 10);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;

    *text = unit ? end + 1 : end;
    return unit ? size << 10 * (unit - units + 1) : size;
}

/* Read "LEAST-MOST", "LEAST-" or "off". Returns 0 if the text is none of them. */
static int read_range(const char **text, struct range *range)
{
    if (!strncasecmp(*text, "off", 3)) {
        *text += 3;
        *range = (struct range){1, 0};
        return 1;
    }
    if (!isdigit((unsigned char)**text))
        return 0;
    range->least = read_size(text);
    if (*(*text)++ != '-')
        return 0;
    range->most = isdigit((unsigned char)**text) ? read_size(text) : UINT64_MAX;
    return 1;
}

/* The function that the first `length` letters of `text` name; FUNCTION_COUNT for "all"; -1 for no function. */
static int function_named(const char *text, size_t length)
{
    if (length == 3 && !strncasecmp(text, "all", length))
        return FUNCTION_COUNT;
    for (int function = 0; function < FUNCTION_COUNT; function++) {
        const char *name = shim_function_name(function);
        if (strlen(name) == length && !strncasecmp(text, name, length))
            return function;
    }
    return -1;
}

const char *shim_parse_thresholds(const char *text, struct range *ranges)
{
    while (*(text += strspn(text, ", "))) {
        const char *start = text;
        size_t length = strcspn(text, "=");
        int function = text[length] ? function_named(text, length) : -1;
        struct range range;
        text += length + 1;
        if (function < 0 || !read_range(&text, &range) || (*text && !strchr(", ", *text)))
            return start;
        for (int i = 0; i < FUNCTION_COUNT; i++)
            if (i == function || function == FUNCTION_COUNT)
                ranges[i] = range;
    }
    return NULL;
}

static uint32_t number_of(const char *variable, uint32_t otherwise)
{
    const char *text = getenv(variable);
    char *end;
    unsigned long number;

    if (!text || !*text)
        return otherwise;
    number = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end) {
        shim_say("BAD_SETTING: %s is %.40s, so %u is taken; write a number", variable, text, otherwise);
        return otherwise;
    }
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static uint32_t slots(void)
{
    uint32_t number = number_of("FANIN_MPI_SLOTS", SLOTS);

    if (number >= FEWEST_SLOTS && !(number & (number - 1)))
        return number;
    shim_say("BAD_SETTING: FANIN_MPI_SLOTS is %u, so %d are taken; write a power of two from %d on", number, SLOTS,
              FEWEST_SLOTS);
    return SLOTS;
}

static uint32_t join_ms(void)
{
    uint32_t seconds = number_of("FANIN_MPI_JOIN_SECONDS", JOIN_SECONDS);

    if (seconds <= UINT32_MAX / 1000)
        return 1000 * seconds;
    shim_say("BAD_SETTING: FANIN_MPI_JOIN_SECONDS is more than %u, so %d are taken; write a smaller number",
              UINT32_MAX / 1000, JOIN_SECONDS);
    return 1000 * JOIN_SECONDS;
}

static uint32_t route_of(const char *name)
{
    static const char *const names[] = {
        [FANIN_ROUTE_LOCAL] = "local", [FANIN_ROUTE_TREE] = "tree", [FANIN_ROUTE_RING] = "ring"};

    for (uint32_t route = 0; name && route < sizeof names / sizeof names[0]; route++)
        if (!strcmp(name, names[route]))
            return route;
    if (name && *name && strcmp(name, "auto"))
        shim_say("BAD_SETTING: FANIN_ROUTE is %.40s, so auto is taken; write tree, ring, local or auto", name);
    return FANIN_ROUTE_AUTO;
}

static int joins_late(const char *text)
{
    if (!text || !*text)
        return 0;
    if (strcmp(text, "late"))
        shim_say("BAD_SETTING: FANIN_MPI_JOIN is %.40s; write late, or leave it out", text);
    return !strcmp(text, "late");
}

void shim_read_settings(void)
{
    const char *thresholds = getenv("FANIN_MPI_THRESHOLDS"), *wrong;
    struct range ranges[FUNCTION_COUNT];

    shim_settings = (struct settings){.report = number_of("FANIN_MPI_REPORT", 0),
                                       .strict = number_of("FANIN_MPI_STRICT", 0),
                                       .late = joins_late(getenv("FANIN_MPI_JOIN")),
                                       .route = route_of(getenv("FANIN_ROUTE")),
                                       .slots = slots(),
                                       .join_ms = join_ms()};
    shim_parse_thresholds(DEFAULT_THRESHOLDS, shim_settings.ranges);
    memcpy(ranges, shim_settings.ranges, sizeof ranges);
    wrong = thresholds ? shim_parse_thresholds(thresholds, ranges) : NULL;
    if (wrong)
        shim_say("BAD_SETTING: FANIN_MPI_THRESHOLDS can not be read from %.40s on; write NAME=LEAST-MOST, as in "
                  "allreduce=0-64m", wrong);
    else
        memcpy(shim_settings.ranges, ranges, sizeof ranges);
}
