/* What programs do with collectives beside calling them. The first argument chooses a scene; 0 is the exit code if all
 * is as MPI promises.
 */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int rank, ranks, wrong;

static void expect(int condition, const char *what)
{
    if (!condition && wrong++ < 5)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

enum { KINDS = 5, LENGTH = 1000 };

struct work {
    MPI_Request requests[KINDS];
    double sum[LENGTH], in[LENGTH], sent[LENGTH], received[LENGTH], root[LENGTH];
};

/* Two collectives, a message to the next rank, one from the previous, and nothing. */
static void begin(struct work *work)
{
    for (int i = 0; i < LENGTH; i++) {
        work->in[i] = work->sent[i] = rank + i;
        work->root[i] = rank == 1 ? i : -1;
    }
    MPI_Iallreduce(work->in, work->sum, LENGTH, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &work->requests[0]);
    MPI_Isend(work->sent, LENGTH, MPI_DOUBLE, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &work->requests[1]);
    MPI_Ibcast(work->root, LENGTH, MPI_DOUBLE, 1, MPI_COMM_WORLD, &work->requests[2]);
    MPI_Irecv(work->received, LENGTH, MPI_DOUBLE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &work->requests[3]);
    work->requests[4] = MPI_REQUEST_NULL;
}

static void check(const struct work *work)
{
    int last = LENGTH - 1;

    expect(work->sum[last] == ranks * (ranks - 1) / 2 + ranks * last, "the sum is wrong");
    expect(work->received[last] == (rank + ranks - 1) % ranks + last, "the message is wrong");
    expect(work->root[last] == last, "the broadcast is wrong");
    for (int i = 0; i < KINDS; i++)
        expect(work->requests[i] == MPI_REQUEST_NULL, "a request is left");
}

static void wait_for_requests(void)
{
    static struct work work;
    MPI_Status statuses[KINDS];
    int index, flag, some, indices[KINDS], done;

    begin(&work);
    MPI_Waitall(KINDS, work.requests, statuses);
    check(&work);
    begin(&work);
    for (done = 0; done < 4; done++) {
        MPI_Waitany(KINDS, work.requests, &index, statuses);
        expect(index >= 0 && index < 4, "Waitany gives no request");
    }
    MPI_Waitany(KINDS, work.requests, &index, statuses);
    expect(index == MPI_UNDEFINED, "Waitany finds a request where none is left");
    check(&work);
    begin(&work);
    for (done = 0; done < 4; done += some)
        MPI_Waitsome(KINDS, work.requests, &some, indices, statuses);
    check(&work);
    begin(&work);
    for (flag = 0; !flag;)
        MPI_Testall(KINDS, work.requests, &flag, statuses);
    check(&work);
    begin(&work);
    for (done = 0; done < 4; done += flag && index != MPI_UNDEFINED)
        MPI_Testany(KINDS, work.requests, &index, &flag, statuses);
    check(&work);
    begin(&work);
    for (int i = 0; i < KINDS; i++) {
        MPI_Request_get_status(work.requests[i], &flag, statuses);
        MPI_Wait(&work.requests[i], MPI_STATUS_IGNORE);
    }
    check(&work);
}

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
/* Started in another order on each rank. */
static void persistent(void)
{
    enum { COUNT = 4 };
    MPI_Request requests[COUNT + 1];
    double in[COUNT], out[COUNT];
    int index, flag;

    for (int i = 0; i < COUNT; i++)
        MPI_Allreduce_init(&in[i], &out[i], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    requests[COUNT] = MPI_REQUEST_NULL;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = round + i;
        for (int i = 0; i < COUNT; i++)
            MPI_Start(&requests[(i * (rank % 2 ? 1 : COUNT - 1) + rank) % COUNT]);
        if (round % 3 == 0)
            MPI_Waitall(COUNT + 1, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT && round % 3 == 1; i++)
            MPI_Waitany(COUNT + 1, requests, &index, MPI_STATUS_IGNORE);
        for (flag = 0; !flag && round % 3 == 2;)
            MPI_Testall(COUNT + 1, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT; i++)
            expect(out[i] == ranks * (round + i), "a persistent sum is wrong");
    }
    for (int i = 0; i < COUNT; i++)
        MPI_Request_free(&requests[i]);
}
#else
static void persistent(void)
{
}
#endif

/* Broadcast pairs of a type made of ints; frees it. */
static void broadcast_as(MPI_Datatype type, int bytes, const char *what)
{
    enum { PAIRS = 100 };
    int data[2 * PAIRS];

    for (int i = 0; i < 2 * PAIRS; i++)
        data[i] = rank ? -1 : i;
    MPI_Type_commit(&type);
    MPI_Bcast(data, (int)sizeof data / bytes, type, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * PAIRS; i++)
        expect(data[i] == i, what);
    MPI_Type_free(&type);
}

/* Types made of types; with MPI 4 such with large counts as well. */
static void derived_types(void)
{
    MPI_Datatype pair, type;
    int pair_bytes = 2 * (int)sizeof(int);

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_dup(pair, &type);
    broadcast_as(type, pair_bytes, "a duplicate of a type is broadcast wrongly");
    MPI_Type_contiguous(5, pair, &type);
    broadcast_as(type, 5 * pair_bytes, "a row of a derived type is broadcast wrongly");
    MPI_Type_free(&pair);
#if MPI_VERSION >= 4
    MPI_Type_contiguous_c(2, MPI_INT, &pair);
    MPI_Type_contiguous(5, pair, &type);
    broadcast_as(type, 5 * pair_bytes, "a row of a type with a large count is broadcast wrongly");
    MPI_Type_vector_c(5, 1, 1, pair, &type);
    broadcast_as(type, 5 * pair_bytes, "a vector with large counts is broadcast wrongly");
    broadcast_as(pair, pair_bytes, "a type with a large count is broadcast wrongly");
#endif
}

/* A rank waits in a collective of the devices, while another needs it to go on with a long message. */
static void let_messages_go_on(void)
{
    enum { LONG = 1 << 22 };
    char *message = calloc(LONG, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    int one = 1, sum;

    if (rank == 0) {
        message[LONG - 1] = 7;
        MPI_Isend(message, LONG, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
    }
    if (rank == 1) {
        MPI_Recv(message, LONG, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(message[LONG - 1] == 7, "the long message is wrong");
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == ranks, "the sum is wrong");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(message);
}

/* What follows a gathering of counts goes on while the root waits for a message that depends on it. */
static void gather_counts(void)
{
    int *all = calloc((size_t)ranks, sizeof *all), *counts = calloc((size_t)ranks, sizeof *counts);
    int *offsets = calloc((size_t)ranks, sizeof *offsets), one = 1, sum = 0, message = 0;
    MPI_Request requests[2];

    for (int i = 0; i < ranks; i++)
        counts[i] = 1, offsets[i] = i;
    MPI_Igatherv(&rank, 1, MPI_INT, all, counts, offsets, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    if (rank == 0)
        MPI_Recv(&message, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank == 1)
        MPI_Send(&sum, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    expect(sum == ranks && (rank != 0 || message == ranks), "the sum is wrong");
    for (int i = 0; i < ranks && rank == 0; i++)
        expect(all[i] == i, "what was gathered is wrong");
    free(all);
    free(counts);
    free(offsets);
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void make_communicators(int rounds)
{
    int before = 0, sum, size;

    for (int round = 0; round < rounds; round++) {
        MPI_Comm twin, half;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        MPI_Comm_split(twin, rank % 2, -rank, &half);
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, twin, &request);
        MPI_Comm_free(&twin); /* while it is in use */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(sum == ranks * (ranks - 1) / 2, "the sum of a duplicate is wrong");
        MPI_Comm_size(half, &size);
        MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_MIN, half);
        expect(size == (rank % 2 ? ranks / 2 : (ranks + 1) / 2), "the size of a half is wrong");
        MPI_Comm_free(&half);
        if (round == 2)
            before = descriptors();
    }
    expect(descriptors() == before, "descriptors are left");
}

/* More communicators than the device has queues, while a long sum is under way on one that has been freed. */
static void use_up_queues(void)
{
    enum { MANY = 66, LONG = 1 << 22 };
    double *in = calloc(LONG, sizeof *in), *out = calloc(LONG, sizeof *out);
    MPI_Comm twin, others[MANY];
    MPI_Request request;
    int one = 1, sum;

    in[0] = in[LONG - 1] = rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    for (int i = 0; i < MANY; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &others[i]);
        if (i < MANY - 1)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, others[i]);
    }
    MPI_Iallreduce(in, out, LONG, MPI_DOUBLE, MPI_SUM, twin, &request);
    MPI_Comm_free(&twin);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, others[MANY - 1]);
    expect(sum == ranks, "the sum of the last communicator is wrong");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(out[0] + out[LONG - 1] == ranks * (ranks - 1), "the long sum is wrong");
    for (int i = 0; i < MANY; i++)
        MPI_Comm_free(&others[i]);
    free(in);
    free(out);
}

/* One rank has no memory to bring its data together: all get an error, and none waits. */
static void run_out_of_memory(void)
{
    enum { LONG = 1 << 22 };
    int *counts = calloc((size_t)ranks, sizeof *counts), *offsets = calloc((size_t)ranks, sizeof *offsets);
    double *in = calloc(2 * LONG, sizeof *in), *all = calloc(LONG + 64, sizeof *all);
    MPI_Datatype spread;
    long pages = 0;

    for (int i = 0; i < ranks; i++)
        counts[i] = i == 1 ? LONG : 1, offsets[i] = i < 2 ? i : LONG + i;
    MPI_Type_vector(rank == 1 ? LONG : 1, 1, 2, MPI_DOUBLE, &spread);
    MPI_Type_commit(&spread);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        FILE *file = fopen("/proc/self/statm", "r");
        expect(fscanf(file, "%ld", &pages) == 1, "the size of this process is not known");
        fclose(file);
        size_t most = (size_t)(pages * sysconf(_SC_PAGESIZE)) + LONG;
        setrlimit(RLIMIT_AS, &(struct rlimit){most, RLIM_INFINITY});
    }
    expect(MPI_Gatherv(in, 1, spread, all, counts, offsets, MPI_DOUBLE, 0, MPI_COMM_WORLD) || rank > 1, "no error");
    if (rank == 1) /* it starts nothing else that could tell the others */
        MPI_Recv(&pages, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(&pages, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
    expect(MPI_Barrier(MPI_COMM_WORLD), "no error in what follows");
    setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    MPI_Type_free(&spread);
    free(counts);
    free(offsets);
    free(in);
    free(all);
}

/* Every rank gets the error, so none waits in the MPI for one that has gone on. */
static void be_refused(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect(MPI_Barrier(MPI_COMM_WORLD), "no error");
}

/* MPI_COMM_SELF goes when MPI_Finalize has begun, and programs free in its callbacks what they have kept. */
static MPI_Request kept = MPI_REQUEST_NULL;

static int free_kept(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_Request_free(&kept);
}

static void free_late(void)
{
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
    static int one = 1, sum;
    int key;

    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    expect(sum == ranks, "the sum is wrong");
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_kept, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
#endif
}

struct errand {
    MPI_Comm comm;
    int wrong;
};

static void *add_often(void *argument)
{
    struct errand *errand = argument;

    for (int i = 0; i < 300; i++) {
        double in = rank + i, out;
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, errand->comm);
        errand->wrong += out != ranks * (ranks - 1) / 2 + ranks * i;
    }
    return NULL;
}

static void use_threads(void)
{
    struct errand errands[2] = {{.wrong = 0}};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &errands[i].comm);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add_often, &errands[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        expect(!errands[i].wrong, "a sum in a thread is wrong");
        MPI_Comm_free(&errands[i].comm);
    }
}

static void user_op(void *in, void *out, int *count, MPI_Datatype *type)
{
    for (int i = 0; type && i < *count; i++)
        ((int *)out)[i] += ((int *)in)[i];
}

/* What devices do not do is left to the MPI, and is right all the same. */
static void leave_to_mpi(void)
{
    MPI_Comm half, both;
    MPI_Op op;
    int sum, one = 1;

    MPI_Op_create(user_op, 1, &op);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    expect(sum == ranks, "the sum of an own operation is wrong");
    MPI_Op_free(&op);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &both);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
    expect(sum == (rank % 2 ? (ranks + 1) / 2 : ranks / 2), "the sum of the other group is wrong");
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

/* A rank dies in mid-collective: the others get an error, and do not wait. They say so in files, since a launcher that
 * has lost a rank passes on what it likes. */
static void lose_a_rank(const char *folder)
{
    static double in[1 << 20], out[1 << 20];
    int code = MPI_SUCCESS, length;
    char text[MPI_MAX_ERROR_STRING];

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 100000 && code == MPI_SUCCESS; i++) {
        if (i == 20 && rank == ranks - 1)
            raise(SIGKILL);
        code = MPI_Allreduce(in, out, 1 << (i % 21), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    expect(code != MPI_SUCCESS, "no error");
    MPI_Error_string(code, text, &length);
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d", folder, rank);
    FILE *file = fopen(path, "w");
    fprintf(file, "%s", text);
    fclose(file);
    sleep(2); /* its launcher ends the others when one has ended so */
    _Exit(wrong ? 1 : 3);
}

int main(int argc, char **argv)
{
    const char *scene = argc > 1 ? argv[1] : "";
    int provided, all;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!strcmp(scene, "requests"))
        wait_for_requests(), persistent();
    else if (!strcmp(scene, "types"))
        derived_types();
    else if (!strcmp(scene, "messages"))
        let_messages_go_on();
    else if (!strcmp(scene, "counts"))
        gather_counts();
    else if (!strcmp(scene, "communicators"))
        make_communicators(argc > 2 ? atoi(argv[2]) : 20);
    else if (!strcmp(scene, "queues"))
        use_up_queues();
    else if (!strcmp(scene, "memory"))
        run_out_of_memory();
    else if (!strcmp(scene, "refused"))
        be_refused();
    else if (!strcmp(scene, "late"))
        free_late();
    else if (!strcmp(scene, "threads"))
        use_threads();
    else if (!strcmp(scene, "left"))
        leave_to_mpi();
    else if (!strcmp(scene, "loss"))
        lose_a_rank(argv[2]);
    else
        expect(0, "there is no such scene");
    PMPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %d wrong\n", scene, all);
    MPI_Finalize();
    return all != 0;
}
