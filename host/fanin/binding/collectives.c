/* The collectives as methods of Communicator.
 *
 * The short way is for contiguous buffers of plain native types and operations that devices compute, with no other
 * option than a time-out. It hands the arguments to the library at once. All other calls, and all mistakes, go to the
 * Python method `_collective`, which checks everything and comes back through `_run` or `_start`. */
#include "binding.h"

#include <string.h>

enum argument { ARRAY, OUT, OP, ROOT, COUNTS, SHAPE, DTYPE, TIMEOUT, FENCE, DATATYPE, ARGUMENTS, END };
static const char *const argument_names[ARGUMENTS] = {"array", "out",   "op",      "root",  "counts",
                                                      "shape", "dtype", "timeout", "fence", "datatype"};
static PyObject *interned[ARGUMENTS];

/* A collective: its name, and its arguments in the order of their places. */
struct kind {
    enum fanin_collective collective;
    const char *name;
    unsigned char order[8];
};
enum { ALLREDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALLGATHER, GATHER, SCATTER, BARRIER, KINDS };
static const struct kind kinds[KINDS] = {
    {FANIN_ALLREDUCE, "allreduce", {ARRAY, OUT, OP, TIMEOUT, FENCE, DATATYPE, END}},
    {FANIN_REDUCE, "reduce", {ARRAY, OUT, OP, ROOT, TIMEOUT, FENCE, DATATYPE, END}},
    {FANIN_REDUCE_SCATTER, "reduce_scatter", {ARRAY, OUT, OP, COUNTS, TIMEOUT, FENCE, DATATYPE, END}},
    {FANIN_BROADCAST, "broadcast", {ARRAY, ROOT, TIMEOUT, FENCE, END}},
    {FANIN_ALLGATHER, "allgather", {ARRAY, OUT, TIMEOUT, FENCE, END}},
    {FANIN_GATHER, "gather", {ARRAY, OUT, ROOT, TIMEOUT, FENCE, END}},
    {FANIN_SCATTER, "scatter", {ARRAY, OUT, ROOT, SHAPE, DTYPE, TIMEOUT, FENCE, END}},
    {FANIN_BARRIER, "barrier", {TIMEOUT, FENCE, END}},
};
static PyObject *kind_names[KINDS];

enum { MOST_SECONDS = 1000000000, GRACE_SECONDS = 2 }; /* the device has so long to report a deadline that has passed */

/* ---- Arguments ---- */

static int intern_names(void)
{
    for (int i = 0; i < ARGUMENTS; i++)
        if (!interned[i] && !(interned[i] = PyUnicode_InternFromString(argument_names[i])))
            return 0;
    for (int i = 0; i < KINDS; i++)
        if (!kind_names[i] && !(kind_names[i] = PyUnicode_InternFromString(kinds[i].name)))
            return 0;
    return 1;
}

static int find_argument(const struct kind *kind, PyObject *name)
{
    for (const unsigned char *each = kind->order; *each != END; each++)
        if (interned[*each] == name)
            return *each;
    for (const unsigned char *each = kind->order; *each != END; each++)
        if (PyUnicode_Compare(interned[*each], name) == 0)
            return *each;
    return END;
}

/* 0: Python is to say what is wrong with them. */
static int take_arguments(const struct kind *kind, PyObject *const *given, Py_ssize_t count, PyObject *names,
                          PyObject *values[ARGUMENTS])
{
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;

    for (Py_ssize_t i = 0; i < count; i++) {
        if (i == sizeof kind->order || kind->order[i] == END)
            return 0;
        values[kind->order[i]] = given[i];
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        int place = find_argument(kind, PyTuple_GetItem(names, i));

        if (place == END || values[place])
            return 0;
        values[place] = given[count + i];
    }
    for (int i = 0; i < ARGUMENTS; i++)
        if (values[i] == Py_None && i != OP && i != ROOT)
            values[i] = NULL;
    return !values[DATATYPE] && !values[COUNTS] && (!values[FENCE] || values[FENCE] == Py_False);
}

/* The limit of time for all ranks to take part. `seconds`: until the call has ended for certain; -1: it may last. */
static int take_timeout(PyObject *value, struct fanin_operation *operation, double *seconds)
{
    double limit, milliseconds;

    *seconds = -1;
    if (!value)
        return 1;
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value))
        return 0;
    limit = PyFloat_AsDouble(value);
    if (!(limit >= 0 && limit <= MOST_SECONDS)) {
        PyErr_Clear();
        return 0;
    }
    milliseconds = limit * 1000;
    operation->timeout_ms = UINT32_MAX;
    if (milliseconds < UINT32_MAX) {
        operation->timeout_ms = (uint32_t)milliseconds;
        operation->timeout_ms += operation->timeout_ms < milliseconds || !operation->timeout_ms;
    }
    *seconds = limit + GRACE_SECONDS;
    return 1;
}

static int take_root(const struct communicator *self, PyObject *value, uint32_t *root)
{
    long number = value ? -1 : 0;

    if (value && PyLong_CheckExact(value))
        number = PyLong_AsLong(value);
    if (number < 0 || number >= (long)self->size) {
        PyErr_Clear();
        return 0;
    }
    *root = (uint32_t)number;
    return 1;
}

static int take_op(PyObject *value, uint32_t dtype, uint32_t *op)
{
    PyObject *code;

    *op = FANIN_OP_SUM;
    if (value) {
        if (!PyUnicode_CheckExact(value) || !(code = PyDict_GetItemWithError(binding_operations, value)))
            return 0;
        *op = (uint32_t)PyLong_AsUnsignedLong(code);
    }
    return fanin_is_supported(*op, dtype);
}

/* ---- Memory ---- */

/* Sizes of the result: `dimensions` lengths at `shape`, that `rows` times if that is not 0. */
struct result {
    const Py_ssize_t *shape;
    int dimensions;
    Py_ssize_t rows;
    Py_ssize_t flat; /* what `shape` points to, for a slice of a flat array */
    uint64_t length; /* bytes */
};

/* The part of an array that is divided equally among the ranks. 0: it can not be. */
static int take_part(const Py_buffer *view, uint32_t size, struct result *part)
{
    part->length = (uint64_t)view->len / size;
    if (view->ndim == 1) {
        part->flat = view->shape[0] / size;
        part->shape = &part->flat;
        part->dimensions = 1;
        return view->shape[0] % size == 0;
    }
    part->shape = view->shape + 1;
    part->dimensions = view->ndim - 1;
    return view->ndim > 0 && view->shape[0] == (Py_ssize_t)size;
}

/* Memory for a result: `out`, or a new array. New reference to what the program gets. NULL without an exception:
 * `out` is not as it should be. */
static PyObject *take_result(PyObject *out, uint32_t dtype, const struct result *result, Py_buffer *view)
{
    PyObject *made;

    if (out) {
        return view_plain(out, view, 1) == dtype && (uint64_t)view->len == result->length ? Py_NewRef(out) : NULL;
    }
    made = new_array(dtype, result->shape, result->dimensions, result->rows);
    if (made && PyObject_GetBuffer(made, view, PyBUF_WRITABLE)) {
        view->obj = NULL;
        Py_CLEAR(made);
    }
    return made;
}

/* Whether source and destination overlap, and not block on block. The offsets: bytes of the message before each. */
static int overlaps(const struct memory *memory, uint64_t before_source, uint64_t before_destination)
{
    uintptr_t source = (uintptr_t)memory->source.buf, destination = (uintptr_t)memory->destination.buf;

    if (!memory->source.obj || !memory->destination.obj || destination + memory->destination.len <= source ||
        source + memory->source.len <= destination)
        return 0;
    return source - before_source != destination - before_destination;
}

/* Fill in an operation that needs no look by Python. New reference to its result. NULL: Python is to look, or an
 * exception is set. */
static PyObject *fill(struct communicator *self, const struct kind *kind, PyObject *const values[ARGUMENTS],
                      struct fanin_operation *operation, struct memory *memory)
{
    uint32_t dtype = FANIN_DTYPE_NONE, size = self->size;
    int reduces = kind->collective <= FANIN_REDUCE_SCATTER, brings = 1, wants = 1;
    struct result result = {0};
    PyObject *made = NULL;
    uint64_t own;

    operation->collective = kind->collective;
    if (kind->collective == FANIN_BARRIER)
        return Py_NewRef(Py_None);
    if (!take_root(self, values[ROOT], &operation->root))
        return NULL;
    if (kind->collective == FANIN_BROADCAST) {
        int is_root = self->rank == operation->root;

        if (values[ARRAY])
            dtype = view_plain(values[ARRAY], is_root ? &memory->source : &memory->destination, 1);
        operation->block = (uint64_t)(is_root ? memory->source.len : memory->destination.len);
        operation->tag = dtype;
        return dtype ? Py_NewRef(values[ARRAY]) : NULL;
    }
    brings = kind->collective != FANIN_SCATTER || self->rank == operation->root;
    wants = (kind->collective != FANIN_REDUCE && kind->collective != FANIN_GATHER) || self->rank == operation->root;
    if (brings) {
        if (values[ARRAY])
            dtype = view_plain(values[ARRAY], &memory->source, 0);
        if (!dtype || (reduces && !take_op(values[OP], dtype, &operation->op)))
            return NULL;
        result = (struct result){memory->source.shape, memory->source.ndim, 0, 0, (uint64_t)memory->source.len};
        operation->block = result.length;
        if (kind->collective == FANIN_ALLGATHER || kind->collective == FANIN_GATHER) {
            result.rows = size;
            result.length *= size;
        } else if (kind->collective == FANIN_REDUCE_SCATTER || kind->collective == FANIN_SCATTER) {
            if (!take_part(&memory->source, size, &result))
                return NULL;
            operation->block = result.length;
        }
        if (wants)
            made = take_result(values[OUT], dtype, &result, &memory->destination);
    } else if (values[OUT]) { /* of a scatter */
        dtype = view_plain(values[OUT], &memory->destination, 1);
        operation->block = (uint64_t)memory->destination.len;
        made = dtype ? Py_NewRef(values[OUT]) : NULL;
    }
    if (!wants)
        made = Py_NewRef(Py_None);
    own = self->rank * operation->block;
    if (made && overlaps(memory, kind->collective == FANIN_ALLGATHER || kind->collective == FANIN_GATHER ? own : 0,
                         kind->collective == FANIN_REDUCE_SCATTER || kind->collective == FANIN_SCATTER ? own : 0))
        Py_CLEAR(made);
    operation->dtype = reduces ? dtype : FANIN_DTYPE_NONE;
    operation->tag = reduces ? 0 : dtype;
    return made;
}

/* ---- To the library ---- */

/* A start was refused: nothing is under way. */
static PyObject *refuse(struct communicator *self, PyObject *name, PyObject *call, enum fanin_status status)
{
    struct fanin_cqe none = {0};
    PyObject *error = failure(self, call, name, status, &none);

    if (error)
        raise_object(error);
    Py_XDECREF(error);
    return NULL;
}

enum form { STARTS, WAITS, PREPARES };

/* Hand an operation to the library. Takes over the memory and the reference to the result. `seconds`: of waiting; < 0:
 * no limit. New reference: the result, or the Request. */
static PyObject *submit(struct communicator *self, const struct fanin_operation *operation, struct memory *memory,
                        enum form form, PyObject *name, PyObject *result, PyObject *call, PyObject *conclude,
                        double seconds)
{
    struct fanin_request *request = NULL;
    struct request *made;
    enum fanin_status status;
    PyObject *value;

    if (!enter_library(self)) {
        release_memory(memory);
        Py_DECREF(result);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    if (form == WAITS && conclude == Py_None)
        status = fanin_call(self->library, operation, SLICE_MS, &request);
    else if (form != PREPARES)
        status = fanin_start(self->library, operation, &request);
    else
        status = fanin_prepare(self->library, operation, &request);
    Py_END_ALLOW_THREADS
    leave_library(self);
    if (self->ownerless)
        reap(self);
    if (form == WAITS && status == FANIN_SUCCESS && conclude == Py_None) {
        release_memory(memory);
        return result;
    }
    if (!request) {
        release_memory(memory);
        Py_DECREF(result);
        return refuse(self, name, call, status);
    }
    made = new_request(self, operation, request, memory, name, result, call, conclude);
    Py_DECREF(result);
    if (!made || form != WAITS) {
        if (made && form == PREPARES) {
            made->is_persistent = made->is_done = 1;
            made->status = FANIN_SUCCESS;
        }
        return (PyObject *)made;
    }
    value = PyErr_CheckSignals() ? NULL : wait_for_result(made, seconds);
    Py_DECREF((PyObject *)made);
    return value;
}

/* Let Python look at the arguments. */
static PyObject *ask_python(struct communicator *self, PyObject *name, enum form form, PyObject *const *given,
                            Py_ssize_t count, PyObject *names)
{
    PyObject *positional = PyTuple_New(count), *named = PyDict_New(), *result = NULL;

    for (Py_ssize_t i = 0; positional && i < count; i++)
        PyTuple_SetItem(positional, i, Py_NewRef(given[i]));
    for (Py_ssize_t i = 0; named && names && i < PyTuple_Size(names); i++)
        if (PyDict_SetItem(named, PyTuple_GetItem(names, i), given[count + i]))
            Py_CLEAR(named);
    if (positional && named)
        result = PyObject_CallMethod((PyObject *)self, "_collective", "OiOO", name, form == WAITS, positional, named);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return result;
}

static PyObject *collective(PyObject *object, int number, enum form form, PyObject *const *given, Py_ssize_t count,
                            PyObject *names)
{
    struct communicator *self = (struct communicator *)object;
    const struct kind *kind = &kinds[number];
    PyObject *values[ARGUMENTS] = {NULL}, *result = NULL;
    struct fanin_operation operation = {0};
    struct memory memory = {.source = {.obj = NULL}, .destination = {.obj = NULL}};
    double seconds;

    if (!kind_names[KINDS - 1] && !intern_names())
        return NULL;
    if (self->library && take_arguments(kind, given, count, names, values) &&
        take_timeout(values[TIMEOUT], &operation, &seconds))
        result = fill(self, kind, values, &operation, &memory);
    if (!result) {
        release_memory(&memory);
        return PyErr_Occurred() ? NULL : ask_python(self, kind_names[number], form, given, count, names);
    }
    operation.source = memory.source.buf;
    operation.destination = memory.destination.buf;
    return submit(self, &operation, &memory, form, kind_names[number], result, Py_None, Py_None, seconds);
}

/* ---- From Python, checked ---- */

static int take_memory(PyObject *object, Py_buffer *view, int writable)
{
    view->obj = NULL;
    return object == Py_None || !PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE);
}

/* What Python gives: a call, in the order of `Call.arguments`. */
struct checked {
    PyObject *name, *result, *call, *conclude;
    struct fanin_operation operation;
    struct memory memory;
    uint64_t *sizes;
};

static void release_checked(struct checked *checked)
{
    PyMem_Free(checked->sizes);
    release_memory(&checked->memory);
}

static int take_sizes(const struct communicator *self, PyObject *sizes, struct checked *checked)
{
    if (sizes == Py_None)
        return 1;
    if (!PyTuple_Check(sizes) || PyTuple_Size(sizes) != (Py_ssize_t)self->size) {
        PyErr_SetString(PyExc_ValueError, "sizes");
        return 0;
    }
    checked->sizes = PyMem_Calloc(self->size, sizeof *checked->sizes);
    if (!checked->sizes) {
        PyErr_NoMemory();
        return 0;
    }
    for (uint32_t i = 0; i < self->size; i++)
        checked->sizes[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(sizes, i));
    checked->operation.sizes = checked->sizes;
    return !PyErr_Occurred();
}

static int take_checked(const struct communicator *self, PyObject *arguments, struct checked *checked)
{
    struct fanin_operation *operation = &checked->operation;
    PyObject *sizes, *source, *destination;
    unsigned long long block;

    if (!PyArg_ParseTuple(arguments, "OUOOIIIIIIIKOOO", &checked->call, &checked->name, &checked->result,
                          &checked->conclude, &operation->collective, &operation->root, &operation->op,
                          &operation->dtype, &operation->flags, &operation->tag, &operation->timeout_ms, &block, &sizes,
                          &source, &destination))
        return 0;
    operation->block = block;
    if (!take_sizes(self, sizes, checked) || !take_memory(source, &checked->memory.source, 0) ||
        !take_memory(destination, &checked->memory.destination, 1)) {
        release_checked(checked);
        return 0;
    }
    operation->source = checked->memory.source.buf;
    operation->destination = checked->memory.destination.buf;
    return 1;
}

static PyObject *submit_checked(PyObject *object, PyObject *arguments, enum form form, double seconds)
{
    struct communicator *self = (struct communicator *)object;
    struct checked checked = {.sizes = NULL};
    PyObject *made;

    if (!take_checked(self, arguments, &checked))
        return NULL;
    made = submit(self, &checked.operation, &checked.memory, form, checked.name, Py_NewRef(checked.result), checked.call,
                  checked.conclude, seconds);
    PyMem_Free(checked.sizes);
    return made;
}

static PyObject *run(PyObject *object, PyObject *arguments)
{
    PyObject *call;
    double seconds;

    if (!PyArg_ParseTuple(arguments, "O!d", &PyTuple_Type, &call, &seconds))
        return NULL;
    return submit_checked(object, call, WAITS, seconds);
}

static PyObject *start(PyObject *object, PyObject *call)
{
    return submit_checked(object, call, STARTS, -1);
}

static PyObject *prepare(PyObject *object, PyObject *call)
{
    return submit_checked(object, call, PREPARES, -1);
}

static PyObject *segments_of(PyObject *object, PyObject *call)
{
    struct communicator *self = (struct communicator *)object;
    struct checked checked = {.sizes = NULL};
    uint64_t segments;

    if (!take_checked(self, call, &checked))
        return NULL;
    if (!enter_library(self)) {
        release_checked(&checked);
        return NULL;
    }
    segments = fanin_segments_of(self->library, &checked.operation);
    leave_library(self);
    release_checked(&checked);
    return PyLong_FromUnsignedLongLong(segments);
}

/* ---- Methods ---- */

#define FORMS(KIND, name)                                                                                              \
    static PyObject *name(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)                   \
    {                                                                                                                  \
        return collective(self, KIND, WAITS, given, count, names);                                                     \
    }                                                                                                                  \
    static PyObject *i##name(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)                \
    {                                                                                                                  \
        return collective(self, KIND, STARTS, given, count, names);                                                    \
    }
FORMS(ALLREDUCE, allreduce)
FORMS(REDUCE, reduce)
FORMS(REDUCE_SCATTER, reduce_scatter)
FORMS(BROADCAST, broadcast)
FORMS(ALLGATHER, allgather)
FORMS(GATHER, gather)
FORMS(SCATTER, scatter)
FORMS(BARRIER, barrier)

#define METHOD(name, signature, text)                                                                                  \
    {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL | METH_KEYWORDS, #name signature "\n--\n\n" text},        \
    {"i" #name, (PyCFunction)(void (*)(void))i##name, METH_FASTCALL | METH_KEYWORDS,                                   \
     "i" #name signature "\n--\n\nStart " #name " and return at once, with a Request. The arguments are the same."}

PyMethodDef collective_methods[] = {
    METHOD(allreduce, "($self, array, out=None, op='sum', timeout=None, fence=False, datatype=None)",
           "Combine `array` of all ranks element by element; every rank gets the result, in the shape of `array`.\n\n"
           "datatype: what the elements are, where numpy's type does not say it: \"bf16\" for an array of uint16."),
    METHOD(reduce, "($self, array, out=None, op='sum', root=0, timeout=None, fence=False, datatype=None)",
           "Combine `array` of all ranks element by element; rank `root` gets the result, the others None.\n\n"
           "out: looked at on the root only. datatype: as of allreduce."),
    METHOD(reduce_scatter, "($self, array, out=None, op='sum', counts=None, timeout=None, fence=False, datatype=None)",
           "Combine `array` of all ranks element by element; each rank gets its part of the result.\n\n"
           "Equal parts by default: array[rank] of an array with as many rows as ranks, or an equal slice of a flat\n"
           "one. counts: elements of each rank's part, equal on every rank; the result is then flat. datatype: as of\n"
           "allreduce."),
    METHOD(broadcast, "($self, array, root=0, timeout=None, fence=False)",
           "Give every rank what `array` of rank `root` holds. It is written in place, and returned.\n\n"
           "The array must be writable and C-contiguous on every rank, so that a mistake is refused on all of them."),
    METHOD(allgather, "($self, array, out=None, timeout=None, fence=False)",
           "Give every rank the arrays of all: an array of shape (size, *array.shape), row r from rank r.\n\n"
           "In place where `array` is the rank's own row of `out`."),
    METHOD(gather, "($self, array, out=None, root=0, timeout=None, fence=False)",
           "Give rank `root` the arrays of all: an array of shape (size, *array.shape), row r from rank r. The others\n"
           "get None.\n\n"
           "out: looked at on the root only; in place where `array` is the root's own row of it."),
    METHOD(scatter, "($self, array=None, out=None, root=0, shape=None, dtype=None, timeout=None, fence=False)",
           "Give each rank its part of `array` of rank `root`: array[rank], or an equal slice of a flat array.\n\n"
           "array: looked at on the root only. The other ranks say what they expect: `out`, or `shape` and `dtype`,\n"
           "which the root does not look at."),
    METHOD(barrier, "($self, timeout=None, fence=False)", "Wait until all ranks have called it."),
    {"_run", run, METH_VARARGS, "_run(call, seconds): do a collective that Python has checked. Returns its result."},
    {"_start", start, METH_O, "Start one. Returns a Request."},
    {"_prepare", prepare, METH_O, "Make one persistent. Returns a Request."},
    {"_segments_of", segments_of, METH_O, "Segments that one takes."},
    {NULL, NULL, 0, NULL},
};
