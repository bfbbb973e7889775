#define _GNU_SOURCE
#include "settings.h"
#include "fanin.h"
#include "report.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_SLOTS 4 /* of a lease */
#define MAX_THRESHOLDS 7000 /* of the file, and of the variable; both fit with the shipped ones */
#define TUNED_FILE "fanin/mpi-thresholds" /* in the folder of the user's settings */

struct settings shim_settings;

static void refuse(const char *variable, const char *text, const char *taken, const char *remedy)
{
    shim_say("BAD_SETTING: %s is %.40s, so %s is taken; write %s", variable, text, taken, remedy);
}

static int is_slots(unsigned long number)
{
    return number >= MIN_SLOTS && number <= UINT32_MAX && !(number & (number - 1));
}

static int is_seconds(unsigned long number)
{
    return number <= UINT32_MAX / 1000;
}

/* fits: whether a number is allowed; NULL: any is. */
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

/* Append thresholds from `source` if they make sense. */
static void append(char *thresholds, const char *text, const char *source)
{
    const struct setting any = {FANIN_ROUTE_AUTO, 0, 0, 0};
    struct range ranges[RANGE_COUNT];
    size_t length = strlen(thresholds);
    const char *wrong;

    if (strlen(text) > MAX_THRESHOLDS) {
        shim_say("BAD_SETTING: %s is longer than %d characters; write fewer groups", source, MAX_THRESHOLDS);
        return;
    }
    wrong = shim_read_thresholds(text, &any, ranges);
    if (wrong)
        shim_say("BAD_SETTING: %s can not be read from %.*s on; write [MPI] [ROUTE] [RANKS]: NAME=LEAST-MOST, for "
                 "example local 4: allreduce=0-64m", source, (int)strcspn(wrong, "\n"), wrong);
    else
        snprintf(thresholds + length, THRESHOLDS_CAPACITY - length, "%s\n", text);
}

/* The file of `fanin tune`. Returns 0 if the user has no folder of settings. */
static int find_tuned(char *path, size_t capacity)
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (folder && *folder)
        snprintf(path, capacity, "%s/%s", folder, TUNED_FILE);
    else
        snprintf(path, capacity, "%s/.config/%s", home ? home : "", TUNED_FILE);
    return (folder && *folder) || (home && *home);
}

static void read_tuned(char *thresholds)
{
    char path[PATH_MAX], text[MAX_THRESHOLDS + 2];
    size_t length;
    FILE *file;

    if (!find_tuned(path, sizeof path))
        return;
    file = fopen(path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return;
    length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = 0;
    if (!file || ferror(file))
        shim_say("BAD_SETTING: %s can not be read: %s; repair or remove it", path, strerror(errno));
    else if (strlen(text) != length)
        shim_say("BAD_SETTING: %s is not text; run fanin tune, or remove it", path);
    else
        append(thresholds, text, path);
    if (file)
        fclose(file);
}

/* Reports misspelt names. */
static void refuse_other_names(void)
{
    static const char prefix[] = "FANIN_MPI_";
    static const char *const names[] = {"JOIN",   "JOIN_SECONDS", "REPORT", "SLOTS",
                                        "STRICT", "THRESHOLDS",   "TUNE",   NULL};

    for (char **variable = environ; *variable; variable++) {
        const char *own = *variable + sizeof prefix - 1, *const *name = names;
        size_t length = strcspn(*variable, "=");

        if (strncmp(*variable, prefix, sizeof prefix - 1))
            continue;
        while (*name && (strlen(*name) != strcspn(own, "=") || strncmp(own, *name, strlen(*name))))
            name++;
        if (!*name)
            shim_say("BAD_SETTING: %.*s is unknown; after FANIN_MPI_ write JOIN, JOIN_SECONDS, REPORT, SLOTS, "
                     "STRICT, THRESHOLDS or TUNE", length < 60 ? (int)length : 60, *variable);
    }
}

static uint32_t report_of(void)
{
    const char *text = getenv("FANIN_MPI_REPORT");

    if (!text || !*text)
        return REPORT_IDLE;
    return number_of("FANIN_MPI_REPORT", "1", NULL, "a number") ? REPORT_TABLE : REPORT_NONE;
}

void shim_read_settings(void)
{
    static const struct choice joins[] = {{"auto", JOIN_AUTO}, {"early", JOIN_EARLY}, {"late", JOIN_LATE}, {NULL, 0}};

    shim_settings = (struct settings){
        .report = report_of(),
        .strict = number_of("FANIN_MPI_STRICT", "0", NULL, "a number"),
        .tune = getenv("FANIN_MPI_TUNE") && *getenv("FANIN_MPI_TUNE"),
        .join = choice_of("FANIN_MPI_JOIN", joins, "auto, early or late"),
        .route = choice_of("FANIN_ROUTE", shim_routes, "tree, ring, local or auto"),
        .slots = number_of("FANIN_MPI_SLOTS", "256", is_slots, "a power of two, at least 4"),
        .join_ms = 1000 * number_of("FANIN_MPI_JOIN_SECONDS", "60", is_seconds, "a number up to 4294967")};
    refuse_other_names();
    if (fanin_order_of_environment(&shim_settings.order))
        refuse("FANIN_ORDER", getenv("FANIN_ORDER"), "rank", "arrival or rank");
    append(shim_settings.thresholds, shim_shipped_thresholds, "the shipped thresholds");
    read_tuned(shim_settings.thresholds);
    if (getenv("FANIN_MPI_THRESHOLDS"))
        append(shim_settings.thresholds, getenv("FANIN_MPI_THRESHOLDS"), "FANIN_MPI_THRESHOLDS");
}
