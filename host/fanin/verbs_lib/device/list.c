/* The devices of this host: Fanin's that answer, then those of libibverbs. */
#include "abi/next.h"
#include "device/device.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
    struct ibv_device **others; /* libibverbs's, or NULL */
    struct ibv_device *devices[];
};

static struct our_device known[FANIN_MAX_NICS]; /* never removed, since a device outlives its list */
static uint32_t known_count;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

int our_device_is(const struct ibv_device *device)
{
    const struct our_device *ours = (const void *)device;

    return ours >= known && ours < known + FANIN_MAX_NICS;
}

void our_note_address(struct ibv_device *device, uint32_t address)
{
    __atomic_store_n(&((struct our_device *)device)->address, address, __ATOMIC_RELAXED);
}

static int answers(const char *socket)
{
    struct fanin_context *context;

    if (fanin_connect(socket, &context) != FANIN_SUCCESS)
        return 0;
    fanin_close(context);
    return 1;
}

/* The device of a socket, which is new if unknown; NULL: too many. The caller holds known_lock. */
static struct our_device *device_of(const struct fanin_nic *nic)
{
    struct our_device *device;

    for (uint32_t i = 0; i < known_count; i++)
        if (!strcmp(known[i].socket, nic->socket))
            return &known[i];
    if (known_count == FANIN_MAX_NICS)
        return NULL;
    device = &known[known_count];
    device->number = known_count++;
    device->base.node_type = IBV_NODE_CA;
    device->base.transport_type = IBV_TRANSPORT_IB;
    snprintf(device->base.name, sizeof device->base.name, "fanin%u", device->number);
    snprintf(device->base.dev_name, sizeof device->base.dev_name, "fanin%u", device->number);
    memcpy(device->socket, nic->socket, sizeof device->socket);
    device->address = nic->place.address;
    return device;
}

/* A device that does not answer keeps its number. */
static uint32_t find_ours(struct ibv_device **devices)
{
    struct fanin_nic nics[FANIN_MAX_NICS];
    uint32_t elsewhere, count = fanin_find_nics(nics, &elsewhere), found = 0;
    struct our_device *device;

    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_lock(&known_lock);
        device = device_of(&nics[i]);
        pthread_mutex_unlock(&known_lock);
        if (device && answers(device->socket)) /* slow if the device stands still */
            devices[found++] = &device->base;
    }
    return found;
}

EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
    struct list *list = (void *)((char *)devices - offsetof(struct list, devices));

    if (list->others)
        NEXT(ibv_free_device_list, "IBVERBS_1.1")(list->others);
    free(list);
}

EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
    __typeof__(&ibv_get_device_list) next = FIND_NEXT(ibv_get_device_list, "IBVERBS_1.1");
    struct ibv_device *ours[FANIN_MAX_NICS], **others;
    uint32_t found = find_ours(ours);
    int other_count = 0;
    struct list *list;

    if (count)
        *count = 0;
    others = next ? next(&other_count) : NULL;
    if (!others && next && found == 0)
        return NULL; /* with its errno */
    list = calloc(1, sizeof *list + (found + (size_t)other_count + 1) * sizeof list->devices[0]);
    if (!list) {
        if (others)
            NEXT(ibv_free_device_list, "IBVERBS_1.1")(others);
        return our_null(ENOMEM);
    }
    list->others = others;
    memcpy(list->devices, ours, found * sizeof ours[0]);
    if (others)
        memcpy(list->devices + found, others, (size_t)other_count * sizeof others[0]);
    if (count)
        *count = (int)found + other_count;
    return list->devices;
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return our_device_is(device) ? -1 : NEXT(ibv_get_device_index, "IBVERBS_1.9")(device);
}
