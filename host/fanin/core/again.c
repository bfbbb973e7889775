/* A blocking call like the one before, from Python to the driver core and back without the interpreter. Where ranks and
 * devices share cores, the interpreter costs more than all else of a short call (docs/performance.md); so there is as
 * little of its code and data here as can be.
 *
 * What is known stands in Python's own objects (direct.py, prepared.py, fastpath.py, stream.py); nothing is kept here from
 * one call to the next. Their attributes are slots, which are read where they lie (again.py looks where that is). The
 * global lock is held but from the post to the completion, with the lock of the stream instead, and nothing here calls
 * back into Python before it is done or handed over. So nobody sees it half done: a signal handler
 * runs before or after it. */
#include "again.h"
#include "arguments.h"
#include "fanin.h"

#define NONE (&_Py_NoneStruct)

/* Of a communicator, what again.py gives in this order. `direct` knows the last call, `fast` what is under way beside the
 * books of the stream; `busy` is the set of the streams with anything under way. */
enum part { DIRECT, STREAM, FAST, BUSY, ACQUIRE, RELEASE, GO_ON, PARTS };

static struct fanin_slots slots;
static PyObject *type_of_groups; /* NULL: nothing is known of Python's objects */

__attribute__((visibility("default"))) void fanin_look_into(PyObject *groups, const struct fanin_slots *found)
{
    Py_IncRef(groups);
    type_of_groups = groups;
    slots = *found;
}

static PyObject *part_of(PyObject *parts, enum part part)
{
    return PyTuple_GetItem(parts, part);
}

/* Borrowed; NULL: it has no value. */
static PyObject *get(const PyObject *object, uint32_t slot)
{
    return *(PyObject *const *)((const char *)object + slot);
}

static void set(PyObject *object, uint32_t slot, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)object + slot), *before = *place;

    Py_IncRef(value);
    *place = value;
    Py_DecRef(before);
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* What may come again: the call that followed the last one then, or that itself. Borrowed. */
static PyObject *expected(PyObject *parts)
{
    PyObject *last = get(part_of(parts, DIRECT), slots.last), *follower;

    if (!last || last == NONE)
        return NONE;
    follower = get(last, slots.follower);
    return !follower || follower == NONE ? last : follower;
}

/* The struct whose address stands in an attribute that whoever makes the object sets first. */
static void *struct_of(const PyObject *object, uint32_t slot)
{
    return pointer(PyLong_AsUnsignedLongLong(get(object, slot)));
}

/* Of all arguments, borrowed, in the order of sameness.py: values without a name, the function, names, values with one. */
static Py_ssize_t count_of(const struct call *call)
{
    return call->unnamed + 1 + 2 * call->named;
}

static PyObject *argument(const struct call *call, Py_ssize_t number)
{
    Py_ssize_t name = number - call->unnamed - 1;

    if (name < 0)
        return number == call->unnamed ? call->function : call->values[number];
    return name < call->named ? PyTuple_GetItem(call->names, name) : call->values[call->unnamed + name - call->named];
}

static int is_same(const struct fanin_repeat *repeat, const struct call *call)
{
    const struct fanin_arguments *known = repeat->arguments;

    if (repeat->version != *repeat->regions || known->count != count_of(call))
        return 0;
    for (int32_t i = 0; i < known->count; i++)
        if (!fanin_same_argument(&known->each[i], known->head, (uintptr_t)argument(call, i)))
            return 0;
    return 1;
}

static PyObject *values_of(const struct call *call)
{
    PyObject *values = PyTuple_New(count_of(call));

    for (Py_ssize_t i = 0; values && i < count_of(call); i++) {
        Py_IncRef(argument(call, i));
        PyTuple_SetItem(values, i, argument(call, i));
    }
    return values;
}

/* One time that a call is done again. */
struct again {
    const struct call *call;
    PyObject *parts;
    PyObject *remembered;         /* the call, as Python knows it */
    struct fanin_repeat *repeat;
    PyObject *attempt, *result;
};

/* ENDED: with a result, or with an exception of Python. */
enum outcome { NOTHING_DONE, ENDED, UNDER_WAY };

/* With the lock of the stream. */
static int may_begin(PyObject *parts)
{
    return get(part_of(parts, FAST), slots.current) == NONE &&
           get(part_of(parts, STREAM), slots.stopped) == &_Py_FalseStruct && PySet_Size(part_of(parts, BUSY)) == 0;
}

/* The attempt that waits for its next time, now out of its list; NULL: another thread has it, or it does not wait. */
static PyObject *take_spare(const struct fanin_repeat *repeat)
{
    PyObject *spare = pointer(repeat->spare), *attempt;

    if (!PyList_Size(spare))
        return 0;
    attempt = PyList_GetItem(spare, 0);
    Py_IncRef(attempt);
    PyList_SetSlice(spare, 0, 1, 0);
    return attempt;
}

/* It can serve for the next time, unless another thread has brought one meanwhile. */
static void give_back(const struct fanin_repeat *repeat, PyObject *attempt)
{
    PyObject *spare = pointer(repeat->spare);

    if (!PyList_Size(spare) && PyList_Append(spare, attempt))
        PyErr_Clear(); /* no memory: the next time makes its own */
}

/* What the call returns, once its data are there; NULL: there is no memory for it. */
static PyObject *result_of(const struct again *again)
{
    const struct fanin_repeat *repeat = again->repeat;
    PyObject *result = repeat->result < 0 ? NONE : argument(again->call, repeat->result);

    if (repeat->make)
        return PyObject_CallFunctionObjArgs(pointer(repeat->make), NULL);
    Py_IncRef(result);
    return result;
}

/* There is no memory to hand it over: what the device may still read or write is never let go of. */
static enum outcome lose(struct again *again)
{
    for (Py_ssize_t i = 0; i < count_of(again->call); i++)
        Py_IncRef(argument(again->call, i));
    again->attempt = again->result = 0;
    return ENDED;
}

/* It goes on as what the fast path has begun. No garbage collection meanwhile, which might run anything. */
static enum outcome hand_over(struct again *again)
{
    int collects = PyGC_Disable(), failed;
    PyObject *values = values_of(again->call);

    failed = !values || PySet_Add(part_of(again->parts, BUSY), part_of(again->parts, STREAM));
    if (!failed) {
        set(again->attempt, slots.values, values);
        if (again->repeat->make)
            set(again->attempt, slots.result, again->result);
        set(part_of(again->parts, FAST), slots.current, again->attempt);
    }
    if (values)
        Py_DecRef(values);
    if (collects)
        PyGC_Enable();
    return failed ? lose(again) : UNDER_WAY;
}

static enum fanin_status post_and_wait(const struct fanin_repeat *repeat, struct fanin_prepared *prepared)
{
    void *thread = PyEval_SaveThread();
    enum fanin_status status = fanin_call(repeat->stream, prepared, repeat->patience_ms);

    PyEval_RestoreThread(thread);
    return status;
}

/* With the lock of the stream. Where there is no memory for the result Python says so. */
static enum outcome begin(struct again *again)
{
    struct fanin_repeat *repeat = again->repeat;
    struct fanin_prepared *prepared;

    again->attempt = may_begin(again->parts) ? take_spare(repeat) : 0;
    if (!again->attempt)
        return NOTHING_DONE;
    again->result = result_of(again);
    if (!again->result) {
        PyErr_Clear();
        give_back(repeat, again->attempt);
        return NOTHING_DONE;
    }
    prepared = struct_of(again->attempt, slots.prepared);
    if (repeat->make)
        fanin_write_to(prepared, fanin_memory_of((uintptr_t)again->result, repeat->arguments->head));
    repeat->is_used = 1;
    if (post_and_wait(repeat, prepared) != FANIN_SUCCESS)
        return hand_over(again);
    give_back(repeat, again->attempt);
    return ENDED;
}

/* Another thread that has the lock is not waited for here. */
static enum outcome begin_with_lock(struct again *again)
{
    PyObject *acquired = PyObject_CallFunctionObjArgs(part_of(again->parts, ACQUIRE), &_Py_FalseStruct, NULL);
    PyObject *released;
    enum outcome outcome;

    if (!acquired)
        return ENDED;
    Py_DecRef(acquired);
    if (acquired != &_Py_TrueStruct)
        return NOTHING_DONE;
    outcome = begin(again);
    released = PyObject_CallFunctionObjArgs(part_of(again->parts, RELEASE), NULL);
    if (released)
        Py_DecRef(released);
    return outcome;
}

/* What has not ended goes on in Python. */
static enum outcome finish(struct again *again, enum outcome outcome)
{
    PyObject *direct = part_of(again->parts, DIRECT), *result = again->result;

    if (outcome == ENDED && !result)
        return outcome; /* with an exception */
    if (outcome == NOTHING_DONE) {
        if (again->attempt)
            Py_DecRef(again->attempt);
        return outcome;
    }
    if (get(direct, slots.last) != again->remembered)
        set(direct, slots.last, again->remembered);
    if (outcome == UNDER_WAY) {
        again->result = PyObject_CallFunctionObjArgs(part_of(again->parts, GO_ON), again->remembered, again->attempt,
                                                     NULL);
        Py_DecRef(result);
    }
    Py_DecRef(again->attempt);
    return ENDED;
}

static enum outcome last_or_follower(struct again *again)
{
    enum outcome outcome = NOTHING_DONE;

    again->remembered = expected(again->parts);
    if (again->remembered == NONE)
        return outcome;
    again->repeat = struct_of(again->remembered, slots.address);
    if (!is_same(again->repeat, again->call))
        return outcome;
    Py_IncRef(again->remembered);
    outcome = finish(again, begin_with_lock(again));
    Py_DecRef(again->remembered);
    return outcome;
}

static int is_group(const PyObject *object)
{
    return type_of_groups && (object->ob_type == type_of_groups || PyType_IsSubtype(object->ob_type, type_of_groups));
}

int fanin_again(const struct call *call, PyObject **result)
{
    struct again again = {.call = call, .parts = is_group(call->group) ? get(call->group, slots.again) : NULL};
    enum outcome outcome = NOTHING_DONE;

    if (!again.parts)
        return 0; /* it is none of ours, or not made yet */
    Py_IncRef(again.parts);
    if (PyTuple_Size(again.parts) == PARTS)
        outcome = last_or_follower(&again);
    else
        PyErr_Clear();
    Py_DecRef(again.parts);
    *result = again.result;
    return outcome == ENDED;
}
