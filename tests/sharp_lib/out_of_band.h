/* The exchange that UCC gives to libsharp_coll. Here rank 0 has a socket to each rank. */
#ifndef OUT_OF_BAND_H
#define OUT_OF_BAND_H
#include <sharp/api/sharp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_RANKS = 16 };

/* The ranks of the world, or the first ones of them. */
struct out_of_band {
    int rank, size;
    int peers[MAX_RANKS]; /* rank 0: of the others; others: [0] of rank 0 */
};

static void transfer(int descriptor, void *data, size_t bytes, int sends)
{
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        ssize_t part = sends ? write(descriptor, at, bytes - done) : read(descriptor, at, bytes - done);

        if (part <= 0) {
            fprintf(stderr, "the socket between two ranks has ended\n");
            _exit(3);
        }
        done += (size_t)part;
    }
}

/* Connect all ranks by a socket in a folder. Rank 0 prints "listening" when the others may start, and "connected" when
 * the folder may go. */
static void connect_ranks(struct out_of_band *all, const char *folder)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0), rank;

    snprintf(name.sun_path, sizeof name.sun_path, "%s/ranks", folder);
    if (all->rank) {
        if (connect(descriptor, (struct sockaddr *)&name, sizeof name))
            exit((perror("connect"), 3));
        all->peers[0] = descriptor;
        transfer(descriptor, &all->rank, sizeof all->rank, 1);
        return;
    }
    if (bind(descriptor, (struct sockaddr *)&name, sizeof name) || listen(descriptor, MAX_RANKS))
        exit((perror("listen"), 3));
    puts("listening");
    fflush(stdout);
    for (int i = 1; i < all->size; i++) {
        int peer = accept(descriptor, NULL, NULL);

        transfer(peer, &rank, sizeof rank, 0);
        all->peers[rank] = peer;
    }
    close(descriptor);
    puts("connected");
    fflush(stdout);
}

static int gather(void *context, int root, void *own, void *all, int size)
{
    struct out_of_band *ranks = context;

    if (root != 0)
        return -1;
    if (ranks->rank)
        transfer(ranks->peers[0], own, (size_t)size, 1);
    else
        memcpy(all, own, (size_t)size);
    for (int rank = 1; !ranks->rank && rank < ranks->size; rank++)
        transfer(ranks->peers[rank], (char *)all + (size_t)rank * (size_t)size, (size_t)size, 0);
    return 0;
}

static int bcast(void *context, void *data, int size, int root)
{
    struct out_of_band *ranks = context;

    if (root != 0)
        return -1;
    if (ranks->rank)
        transfer(ranks->peers[0], data, (size_t)size, 0);
    for (int rank = 1; !ranks->rank && rank < ranks->size; rank++)
        transfer(ranks->peers[rank], data, (size_t)size, 1);
    return 0;
}

static int barrier(void *context)
{
    char own = 0, all[MAX_RANKS];
    int result = gather(context, 0, &own, all, 1);

    return result ? result : bcast(context, &own, 1, 0);
}
#endif
