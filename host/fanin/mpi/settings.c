#define _GNU_SOURCE
#include "settings.h"
#include "fanin.h"
#include "report.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
        const char *name = shim_function_names[function];
        if (strlen(name) == length && !strncasecmp(text, name, length))
            return function;
    }
    return -1;
}

/* Parse thresholds, such as "allreduce=0-, bcast=4k-64m, barrier=off", into `ranges`. Names are those of MPI; "all"
 * is every function. Returns NULL, or where the text makes no sense. */
static const char *parse_thresholds(const char *text, struct range *ranges)
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

static void refuse(const char *variable, const char *text, const char *taken, const char *remedy)
{
    shim_say("BAD_SETTING: %s is %.40s, so %s is taken; write %s", variable, text, taken, remedy);
}

static int is_slots(unsigned long number)
{
    return number >= FEWEST_SLOTS && number <= UINT32_MAX && !(number & (number - 1));
}

static int is_seconds(unsigned long number)
{
    return number <= UINT32_MAX / 1000;
}

/* fits: whether a number may be; NULL: any may. */
static uint32_t number_of(const char *variable, const char *otherwise, int (*fits)(unsigned long), const char *remedy)
{
    const char *text = getenv(variable);
    unsigned long number;
    char *end;

    if (!text || !*text)
        text = otherwise;
    number = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || (fits && !fits(number))) {
        refuse(variable, text, otherwise, remedy);
        number = strtoul(otherwise, NULL, 10);
    }
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

struct choice {
    const char *name;
    uint32_t value;
};

/* The first choice is the default. */
static uint32_t choice_of(const char *variable, const struct choice *choices, const char *remedy)
{
    const char *text = getenv(variable);
    const struct choice *choice = choices;

    if (!text || !*text)
        return choices->value;
    while (choice->name && strcmp(text, choice->name))
        choice++;
    if (choice->name)
        return choice->value;
    refuse(variable, text, choices->name, remedy);
    return choices->value;
}

void shim_read_settings(void)
{
    static const struct choice routes[] = {{"auto", FANIN_ROUTE_AUTO}, {"tree", FANIN_ROUTE_TREE},
                                           {"ring", FANIN_ROUTE_RING}, {"local", FANIN_ROUTE_LOCAL}, {NULL, 0}};
    static const struct choice joins[] = {{"early", 0}, {"late", 1}, {NULL, 0}};
    const char *thresholds = getenv("FANIN_MPI_THRESHOLDS"), *wrong;
    struct range ranges[FUNCTION_COUNT];

    shim_settings = (struct settings){
        .report = number_of("FANIN_MPI_REPORT", "0", NULL, "a number"),
        .strict = number_of("FANIN_MPI_STRICT", "0", NULL, "a number"),
        .late = choice_of("FANIN_MPI_JOIN", joins, "late, or leave it out"),
        .route = choice_of("FANIN_ROUTE", routes, "tree, ring, local or auto"),
        .slots = number_of("FANIN_MPI_SLOTS", "256", is_slots, "a power of two from 4 on"),
        .join_ms = 1000 * number_of("FANIN_MPI_JOIN_SECONDS", "60", is_seconds, "a number up to 4294967")};
    parse_thresholds(DEFAULT_THRESHOLDS, shim_settings.ranges);
    memcpy(ranges, shim_settings.ranges, sizeof ranges);
    wrong = thresholds ? parse_thresholds(thresholds, ranges) : NULL;
    if (wrong)
        shim_say("BAD_SETTING: FANIN_MPI_THRESHOLDS can not be read from %.40s on; write NAME=LEAST-MOST, as in "
                 "allreduce=0-64m", wrong);
    else
        memcpy(shim_settings.ranges, ranges, sizeof ranges);
}
