/* Prints the devices of the host, and how many queue pairs each has. */
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    struct ibv_context *contexts[8];

    if (!devices || count > 8)
        return 1;
    for (int i = 0; i < count; i++)
        contexts[i] = ibv_open_device(devices[i]);
    if (devices[count])
        return 2;
    ibv_free_device_list(devices);
    for (int i = 0; i < count; i++) {
        struct ibv_device_attr attr;
        if (!contexts[i] || ibv_query_device(contexts[i], &attr))
            return 3;
        printf("%s %d\n", contexts[i]->device->name, attr.max_qp);
        if (ibv_close_device(contexts[i]))
            return 4;
    }
    return 0;
}
