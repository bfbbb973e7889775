/* Whether the arguments of a Python call are those of a call before. What Python itself tells of an array's memory takes
 * longer than all the rest of a short call, so its fields are read where every extension module that uses NumPy reads
 * them. Should they ever be elsewhere, no argument is found to be the same, and the caller looks closer. */
#include "arguments.h"

struct array { /* PyArrayObject_fields of NumPy, behind the head of the object */
    void *data;
    int dimensions;
    intptr_t *shape, *strides;
    void *base, *dtype;
    int flags;
};

static const void *at(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

/* The shape last: what it points to may be read only of an array. */
static int is_the_array(const struct fanin_argument *known, uint64_t object, uint32_t head)
{
    const uintptr_t *type = at(object + head - sizeof *type);
    const struct array *array = at(object + head);

    if (*type != known->type || (uintptr_t)array->data != known->data || (uintptr_t)array->dtype != known->dtype)
        return 0;
    if (array->flags != known->flags || array->dimensions != known->dimensions)
        return 0;
    for (int32_t i = 0; i < known->dimensions; i++)
        if (array->shape[i] != known->shape[i])
            return 0;
    return 1;
}

uint64_t fanin_memory_of(uint64_t object, uint32_t head)
{
    const struct array *array = at(object + head);

    return (uintptr_t)array->data;
}

int fanin_same_argument(const struct fanin_argument *known, uint32_t head, uint64_t object)
{
    return known->type ? is_the_array(known, object, head) : object == known->object;
}

int fanin_same_arguments(const struct fanin_arguments *known, uint64_t values)
{
    const intptr_t *count = at(values + known->head);
    const uintptr_t *value = at(values + known->tuple_head);

    if (*count != known->count)
        return 0;
    for (int32_t i = 0; i < known->count; i++)
        if (!fanin_same_argument(&known->each[i], known->head, value[i]))
            return 0;
    return 1;
}
