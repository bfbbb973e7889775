#include "nics.h"
#include "log.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SPEED_MBPS 100000
#define MAX_CONNECTIONS 65536
#define MAX_BYTES (1 << 30) /* bytes of one message or collective */
#define MIN_STAGED 65536    /* bytes */
#define NAME_BYTES 16

static struct {
    pthread_mutex_t mutex;
    int is_known, count;
    struct fanin_nic nics[FANIN_MAX_NICS];
    char names[FANIN_MAX_NICS][NAME_BYTES];
    struct fanin_context *contexts[FANIN_MAX_NICS];
    int holders[FANIN_MAX_NICS];
} found = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int nccl_nic_count(void)
{
    uint32_t elsewhere = 0;
    int count;

    pthread_mutex_lock(&found.mutex);
    if (!found.is_known) {
        found.count = (int)fanin_find_nics(found.nics, &elsewhere);
        for (int number = 0; number < found.count; number++)
            snprintf(found.names[number], NAME_BYTES, "fanin%d", number);
        found.is_known = found.count > 0;
    }
    count = found.count;
    pthread_mutex_unlock(&found.mutex);
    return count;
}

const struct fanin_nic *nccl_nic(int number)
{
    return number >= 0 && number < nccl_nic_count() ? &found.nics[number] : NULL;
}

enum fanin_status nccl_hold_nic(int number, struct fanin_context **context)
{
    enum fanin_status status = FANIN_SUCCESS;

    if (!nccl_nic(number))
        return FANIN_NO_DEVICE;
    pthread_mutex_lock(&found.mutex);
    if (!found.holders[number])
        status = fanin_open(found.nics[number].socket, &found.contexts[number]);
    if (status == FANIN_SUCCESS)
        found.holders[number]++;
    *context = found.contexts[number];
    pthread_mutex_unlock(&found.mutex);
    return status;
}

void nccl_release_nic(int number)
{
    pthread_mutex_lock(&found.mutex);
    if (--found.holders[number] == 0)
        fanin_close(found.contexts[number]);
    pthread_mutex_unlock(&found.mutex);
}

enum fanin_status nccl_stage(struct fanin_context *context, struct nccl_staging *staging, uint64_t bytes)
{
    uint64_t room = MIN_STAGED;
    enum fanin_status status;

    if (staging->bytes && bytes <= staging->bytes)
        return FANIN_SUCCESS;
    while (room < bytes)
        room *= 2;
    nccl_unstage(context, staging);
    status = fanin_allocate(context, room, FANIN_ACCESS_READ | FANIN_ACCESS_WRITE, &staging->address, &staging->lkey);
    if (status == FANIN_SUCCESS)
        staging->bytes = room;
    return status;
}

void nccl_unstage(struct fanin_context *context, struct nccl_staging *staging)
{
    if (!staging->bytes)
        return;
    fanin_deregister(context, staging->lkey);
    fanin_unmap(staging->address, staging->bytes);
    *staging = (struct nccl_staging){0};
}

#define COMMON(NUMBER)                                                                                             \
    .name = found.names[NUMBER], .guid = found.nics[NUMBER].place.address ? found.nics[NUMBER].place.address       \
                                                                          : (uint64_t)(NUMBER) + 1,                \
    .pointers = NCCL_PTR_HOST, .speed = SPEED_MBPS, .port = 1, .max_connections = MAX_CONNECTIONS, .max_receives = 1
#define SINCE_9(NUMBER)                                                                                            \
    COMMON(NUMBER), .nic_count = 1, .nics = {NUMBER}, .max_message_bytes = MAX_BYTES, .max_collective_bytes = MAX_BYTES

#define GIVE(...)                                                                                                  \
    if (!nccl_nic(number))                                                                                         \
        return NCCL_INVALID_ARGUMENT;                                                                              \
    *properties = (__typeof__(*properties)){__VA_ARGS__};                                                          \
    return NCCL_SUCCESS;

int nccl_properties_8(int number, struct nccl_properties_v8 *properties)
{
    GIVE(COMMON(number))
}

int nccl_properties_9(int number, struct nccl_properties_v9 *properties)
{
    GIVE(SINCE_9(number))
}

int nccl_properties_11(int number, struct nccl_properties_v11 *properties)
{
    GIVE(SINCE_9(number), .max_grouped_requests = 1)
}

int nccl_properties_12(int number, struct nccl_properties_v12 *properties)
{
    GIVE(SINCE_9(number), .max_grouped_requests = 1, .rail = -1, .plane = -1)
}
