/* Stands in for the libibverbs of a host with a real device, `other0`: built as libibverbs.so.1. */
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#undef ibv_query_port

static struct ibv_device device = {.name = "other0"};
static struct ibv_context context = {.device = &device};
static int lists;

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = calloc(2, sizeof *list);

    lists++;
    list[0] = &device;
    *count = 1;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    lists--;
    free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *opened)
{
    return opened == &device ? &context : NULL;
}

int ibv_query_device(struct ibv_context *asked, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    attr->max_qp = asked == &context ? 12345 : 0;
    return 0;
}

int ibv_close_device(struct ibv_context *closed)
{
    return closed == &context ? lists : 99;
}
