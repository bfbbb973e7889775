#include "report.h"
#include "abi/pmpi.h"
#include <stdarg.h>
#include <stdio.h>

struct counts {
    uint64_t offloaded, bytes;
    uint64_t left[REASON_COUNT];
};

static struct counts counts[FUNCTION_COUNT];
static int is_threaded = 1;      /* several threads may call the MPI at the same time */

const char *const shim_function_names[] = {
#define X(name, ...) #name,
    COLLECTIVES(X)
#undef X
};

static const char *const reason_names[] = {
#define X(name, text) #name,
    REASONS(X)
#undef X
};

const char *const shim_reason_texts[] = {
#define X(name, text) text,
    REASONS(X)
#undef X
};

/* A locked addition would double the cost of a call that is left to the MPI. */
static void add(uint64_t *count, uint64_t number)
{
    if (is_threaded)
        __atomic_fetch_add(count, number, __ATOMIC_RELAXED);
    else
        *count += number;
}

void shim_begin_counting(void)
{
    int level;

    is_threaded = pmpi.Query_thread(&level) || level == shim_abi->thread_multiple;
}

void shim_count_offloaded(enum function function, uint64_t bytes)
{
    add(&counts[function].offloaded, 1);
    add(&counts[function].bytes, bytes);
}

void shim_count_left(enum function function, enum reason reason)
{
    add(&counts[function].left[reason], 1);
}

void shim_say(const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "fanin: %s\n", line);
}

int shim_is_first_warning(void)
{
    static int warned;

    return !__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED);
}

static void print_function(const char *name, const struct counts *row)
{
    uint64_t left = 0;

    for (int reason = 0; reason < REASON_COUNT; reason++)
        left += row->left[reason];
    if (!row->offloaded && !left)
        return;
    fprintf(stderr, "fanin: %-22s %12llu %16llu %12llu ", name, (unsigned long long)row->offloaded,
            (unsigned long long)row->bytes, (unsigned long long)left);
    for (int reason = 0; reason < REASON_COUNT; reason++)
        if (row->left[reason])
            fprintf(stderr, " %s %llu", reason_names[reason], (unsigned long long)row->left[reason]);
    fputc('\n', stderr);
}

static uint64_t sum_of(const struct counts *all, int reason)
{
    uint64_t sum = 0;

    for (int function = 0; function < FUNCTION_COUNT; function++)
        sum += all[function].left[reason];
    return sum;
}

static void print_all(const struct counts *all, const char *path)
{
    if (*path)
        fprintf(stderr, "fanin: MPI_COMM_WORLD: %s\n", path);
    fprintf(stderr, "fanin: %-22s %12s %16s %12s  %s\n", "calls of all ranks", "offloaded", "bytes",
            "left to MPI", "why");
    for (int function = 0; function < FUNCTION_COUNT; function++)
        print_function(shim_function_names[function], &all[function]);
    for (int reason = 0; reason < REASON_COUNT; reason++)
        if (sum_of(all, reason))
            fprintf(stderr, "fanin: %s: %s\n", reason_names[reason], shim_reason_texts[reason]);
}

void shim_report_idle(void)
{
    uint64_t calls = 0, sum, greatest = 0;
    int rank, frequent = 0;

    pmpi.Comm_rank(shim_handle(COMM_WORLD), &rank);
    for (int function = 0; function < FUNCTION_COUNT; function++)
        if (rank || counts[function].offloaded)
            return;
    for (int reason = 0; reason < REASON_COUNT; reason++) {
        calls += sum = sum_of(counts, reason);
        if (sum > greatest) {
            greatest = sum;
            frequent = reason;
        }
    }
    if (calls)
        shim_say("rank 0 has offloaded nothing: the MPI has done all of its %llu collective calls, %llu of them "
                 "because of %s: %s; FANIN_MPI_REPORT=1 shows all, FANIN_MPI_REPORT=0 leaves this line out",
                 (unsigned long long)calls, (unsigned long long)greatest, reason_names[frequent],
                 shim_reason_texts[frequent]);
    else
        shim_say("rank 0 has offloaded nothing: it has made no call that devices do (docs/mpi.md); "
                 "FANIN_MPI_REPORT=0 leaves this line out");
}

void shim_report(const char *path)
{
    enum { NUMBERS = sizeof counts / (sizeof(uint64_t)) };
    struct counts all[FUNCTION_COUNT];
    int rank;

    pmpi.Comm_rank(shim_handle(COMM_WORLD), &rank);
    if (!pmpi.Reduce(counts, all, NUMBERS, shim_handle(TYPE_UINT64), shim_handle(OP_SUM), 0,
                     shim_handle(COMM_WORLD)) &&
        rank == 0)
        print_all(all, path);
}
