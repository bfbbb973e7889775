/* One rank of `order_cost.py`: allreduces of two jobs take turns. Arguments: the socket of its device, its rank, the
 * files of both jobs, the number of calls, the longest message in bytes. Rank 0 prints for each power of two from 8
 * bytes on: bytes, the median of a call of each job in microseconds, and the median of their ratios. */
#define _POSIX_C_SOURCE 200809L
#include <fanin/fanin.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIMEOUT_MS = 60000, MAX_ROUNDS = 10001 };

static double times[3][MAX_ROUNDS]; /* of each job, and their ratio */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;

    return (difference > 0) - (difference < 0);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Microseconds of a call. A pause between calls makes the order of the ranks random. */
static double measure(struct fanin_communicator *job, const float *in, float *out, size_t bytes)
{
    int calls = bytes <= 1 << 14 ? 40 : bytes <= 1 << 18 ? 20 : 6;
    double start = now_us();

    for (int call = 0; call < calls; call++) {
        enum fanin_status status = fanin_allreduce(job, in, out, bytes / sizeof *in, FANIN_DTYPE_F32, FANIN_OP_SUM);

        if (status) {
            fprintf(stderr, "%s\n", fanin_status_name(status));
            exit(1);
        }
    }
    return (now_us() - start) / calls;
}

int main(int count, char **arguments)
{
    struct fanin_communicator *jobs[2];
    struct fanin_context *device;

    if (count != 7 || fanin_open(arguments[1], &device))
        return 1;
    uint32_t rank = (uint32_t)atoi(arguments[2]);
    int rounds = atoi(arguments[5]);
    size_t most = strtoul(arguments[6], NULL, 10);
    float *in = calloc(1, most), *out = calloc(1, most);

    if (!in || !out || rounds < 1 || rounds > MAX_ROUNDS)
        return 1;
    for (int i = 0; i < 2; i++) {
        struct fanin_job job;

        if (fanin_job_of_file(arguments[3 + i], &job) || fanin_join(device, &job, rank, TIMEOUT_MS, &jobs[i]))
            return 1;
    }
    for (size_t bytes = 8; bytes <= most; bytes *= 2) {
        for (int round = -3; round < rounds; round++) {
            double found[2];

            for (int i = 0; i < 2; i++)
                found[(round ^ i) & 1] = measure(jobs[(round ^ i) & 1], in, out, bytes);
            for (int i = 0; i < 2 && round >= 0; i++)
                times[i][round] = found[i];
            if (round >= 0)
                times[2][round] = found[1] / found[0];
        }
        if (rank == 0)
            printf("%zu %f %f %f\n", bytes, median(times[0], rounds), median(times[1], rounds), median(times[2], rounds));
        fflush(stdout);
    }
    fanin_close(device);
    return 0;
}
