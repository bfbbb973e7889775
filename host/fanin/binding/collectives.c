/* The collectives as methods of Communicator.
 *
 * Python gives the collectives and their arguments (`methods`). Calls with contiguous buffers of plain native types, an
 * operation that devices compute, and no option but a time-out go to the library at once. All others, and all mistakes,
 * go to the method's form in Python, which checks everything and comes back through `_run` or `_start`. */
#include "binding.h"

/* SHAPE, DTYPE (of ranks that give no memory) and OTHER are for Python only. */
enum argument { ARRAY, OUT, OP, ROOT, TIMEOUT, SHAPE, DTYPE, OTHER, ARGUMENTS };
static const char *const argument_names[OTHER] = {"array", "out", "op", "root", "timeout", "shape", "dtype"};

enum form { STARTS, WAITS, METHODS, PREPARES = METHODS };
enum { COLLECTIVES = 11, MAX_ARGUMENTS = 12 };
enum { MAX_SECONDS = 1000000, GRACE_SECONDS = 2 }; /* for the device to report a deadline that has passed */

struct side {
    int is_for[2]; /* ranks other than the root; the root */
    int own;       /* only the rank's own block, not the whole message */
};

/* A row of the table in fanin_wire.collectives, and its methods. */
static struct collective {
    PyObject *name;
    int is_vector, reduces, divided;
    struct side brings, wants;
    PyObject *in_python[METHODS];
    PyObject *names[MAX_ARGUMENTS];      /* of the arguments, in order; interned */
    unsigned char places[MAX_ARGUMENTS]; /* enum argument */
    Py_ssize_t arguments;
} collectives[COLLECTIVES];

/* ---- Arguments ---- */

static Py_ssize_t find_argument(const struct collective *row, PyObject *name)
{
    Py_ssize_t i = 0;

    while (i < row->arguments && row->names[i] != name)
        i++;
    return i;
}

/* 0: Python must check or serve them. */
static int take_arguments(const struct collective *row, PyObject *const *given, Py_ssize_t count, PyObject *names,
                          PyObject *values[ARGUMENTS])
{
    Py_ssize_t all = count + (names ? PyTuple_Size(names) : 0);

    for (Py_ssize_t i = 0; i < all; i++) {
        Py_ssize_t at = i < count ? i : find_argument(row, PyTuple_GetItem(names, i - count));
        int place, is_default;

        if (at >= row->arguments || (i >= count && at < count))
            return 0;
        place = row->places[at];
        is_default = place == OTHER ? given[i] == Py_None || given[i] == Py_False
                                    : given[i] == Py_None && place != OP && place != ROOT;
        if (!is_default)
            values[place] = given[i];
    }
    return !values[OTHER] && !row->is_vector;
}

/* The time limit for all ranks to take part, and the later one for the end of the call. */
static int take_timeout(PyObject *value, struct call *call)
{
    double limit;
    uint32_t whole;

    call->seconds = -1;
    if (!value)
        return 1;
    limit = PyFloat_CheckExact(value) || PyLong_CheckExact(value) ? PyFloat_AsDouble(value) : -1;
    if (!(limit >= 0 && limit <= MAX_SECONDS)) {
        PyErr_Clear();
        return 0;
    }
    whole = (uint32_t)(limit * 1000);
    call->operation.timeout_ms = whole + (whole < limit * 1000 || !whole);
    call->seconds = limit + GRACE_SECONDS;
    return 1;
}

static int take_root(PyObject *value, uint32_t *root)
{
    unsigned long number = value ? PyLong_AsUnsignedLong(value) : 0;

    if (number > UINT32_MAX) {
        PyErr_Clear();
        return 0;
    }
    *root = (uint32_t)number;
    return 1;
}

static int take_op(PyObject *value, uint32_t *op)
{
    PyObject *code;

    *op = FANIN_OP_SUM;
    if (value) {
        if (!PyUnicode_CheckExact(value) || !(code = PyDict_GetItemWithError(binding_operations, value)))
            return 0;
        *op = (uint32_t)PyLong_AsUnsignedLong(code);
    }
    return 1;
}

/* ---- Memory ---- */

/* The bytes of a block and the shape of the result. 0: the data can not be divided equally. */
static int measure(const struct collective *row, const Py_buffer *brought, Py_ssize_t ranks, uint64_t *block,
                   struct extent *result)
{
    *block = (uint64_t)brought->len;
    *result = (struct extent){NO_LENGTH, brought->shape, brought->ndim, *block};
    if (!row->divided)
        return 1;
    if (row->brings.own) {
        result->first = ranks;
        result->bytes *= (uint64_t)ranks;
        return 1;
    }
    if (brought->ndim == 0 || (brought->ndim == 1 ? brought->shape[0] % ranks != 0 : brought->shape[0] != ranks))
        return 0;
    if (brought->ndim == 1) /* a slice; otherwise a row */
        result->first = brought->shape[0] / ranks;
    result->others++;
    result->count--;
    *block = result->bytes /= (uint64_t)ranks;
    return 1;
}

/* Memory and sizes, by the row. 0: Python must look, or an exception is set. */
static int take_memory(const struct communicator *self, const struct collective *row, PyObject *const values[ARGUMENTS],
                       struct call *call)
{
    struct fanin_operation *operation = &call->operation;
    int is_root = self->rank == operation->root;
    int brings = row->brings.is_for[is_root], wants = row->wants.is_for[is_root];
    int in_place = !row->wants.is_for[1] && row->wants.is_for[0]; /* the root's array is the result */
    PyObject *out = values[in_place ? ARRAY : OUT], *given = brings ? values[ARRAY] : out;
    Py_buffer *destination = &call->memory.destination, *view = brings ? &call->memory.source : destination;
    struct extent extent;
    uint32_t dtype;

    if (!brings && !wants) { /* a barrier */
        call->result = Py_NewRef(Py_None);
        return 1;
    }
    dtype = given ? view_plain(given, view, in_place || !brings) : FANIN_DTYPE_NONE;
    if (!dtype || (row->reduces && !take_op(values[OP], &operation->op)))
        return 0;
    if (row->reduces)
        operation->dtype = dtype;
    else
        operation->tag = dtype;
    operation->block = (uint64_t)view->len;
    if (brings && !measure(row, view, (Py_ssize_t)self->size, &operation->block, &extent))
        return 0;
    if (in_place || !brings)
        call->result = Py_NewRef(out);
    else if (!wants)
        call->result = Py_NewRef(Py_None);
    else if (!out)
        call->result = new_array(dtype, &extent, destination);
    else if (view_plain(out, destination, 1) == dtype && (uint64_t)destination->len == extent.bytes)
        call->result = Py_NewRef(out);
    return call->result != NULL;
}

/* ---- To the library ---- */

static void release_call(struct call *call)
{
    release_memory(&call->memory);
    Py_CLEAR(call->result);
}

/* Pass a call to the library; owns its memory and result. New reference: the result, or the Request. NULL without an
 * exception: refused, and Python has not checked it yet. */
static PyObject *submit(struct communicator *self, struct call *call, enum form form)
{
    struct fanin_request *request = NULL;
    int ends_here = form == WAITS && !call->conclude;
    struct request *made;
    enum fanin_status status;
    PyObject *value;

    call->operation.source = call->memory.source.buf;
    call->operation.destination = call->memory.destination.buf;
    if (!enter_library(self)) {
        release_call(call);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    if (ends_here)
        status = fanin_call(self->library, &call->operation, SLICE_MS, &request);
    else if (form != PREPARES)
        status = fanin_start(self->library, &call->operation, &request);
    else
        status = fanin_prepare(self->library, &call->operation, &request);
    Py_END_ALLOW_THREADS
    leave_library(self);
    if (self->ownerless)
        reap(self);
    if (ends_here && status == FANIN_SUCCESS) {
        release_memory(&call->memory);
        return call->result;
    }
    if (!request) {
        release_call(call);
        if (call->about || (status != FANIN_INVALID_REQUEST && status != FANIN_NOT_SUPPORTED))
            raise_refusal(self, call->about ? call->about : Py_None, call->name, status);
        return NULL;
    }
    made = new_request(self, request, call);
    if (!made || form == STARTS)
        return (PyObject *)made;
    if (form == PREPARES) {
        made->is_persistent = made->is_done = 1;
        made->status = FANIN_SUCCESS;
        return (PyObject *)made;
    }
    value = PyErr_CheckSignals() ? NULL : wait_for_result(made, call->seconds);
    Py_DECREF((PyObject *)made);
    return value;
}

static PyObject *ask_python(PyObject *self, PyObject *form, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *positional = PyTuple_New(count + 1), *named = PyDict_New(), *result = NULL;

    for (Py_ssize_t i = 0; positional && i <= count; i++)
        PyTuple_SetItem(positional, i, Py_NewRef(i ? given[i - 1] : self));
    for (Py_ssize_t i = 0; named && names && i < PyTuple_Size(names); i++)
        if (PyDict_SetItem(named, PyTuple_GetItem(names, i), given[count + i]))
            Py_CLEAR(named);
    if (positional && named)
        result = PyObject_Call(form, positional, named);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return result;
}

static PyObject *collective(PyObject *object, uint32_t code, enum form form, PyObject *const *given, Py_ssize_t count,
                            PyObject *names)
{
    struct communicator *self = (struct communicator *)object;
    const struct collective *row = &collectives[code];
    struct call call = {.name = row->name, .operation.collective = code};
    PyObject *values[ARGUMENTS] = {NULL}, *outcome = NULL;

    if (self->library && take_arguments(row, given, count, names, values) && take_timeout(values[TIMEOUT], &call) &&
        take_root(values[ROOT], &call.operation.root) && take_memory(self, row, values, &call))
        outcome = submit(self, &call, form);
    else
        release_call(&call);
    return outcome || PyErr_Occurred() ? outcome : ask_python(object, row->in_python[form], given, count, names);
}

/* ---- From Python, checked ---- */

/* A call from `Call.arguments`. 0: an exception is set. */
static int take_checked(const struct communicator *self, PyObject *arguments, struct call *call)
{
    struct fanin_operation *operation = &call->operation;
    PyObject *result, *destination;
    unsigned long long block;

    if (!PyArg_ParseTuple(arguments, "OUOOIIIIIIIKz*z*O", &call->about, &call->name, &result, &call->conclude,
                          &operation->collective, &operation->root, &operation->op, &operation->dtype,
                          &operation->flags, &operation->tag, &operation->timeout_ms, &block, &call->sizes,
                          &call->memory.source, &destination))
        return 0;
    call->result = Py_NewRef(result);
    if (call->conclude == Py_None)
        call->conclude = NULL;
    operation->block = block;
    operation->sizes = call->sizes.buf;
    if (call->sizes.obj && call->sizes.len != (Py_ssize_t)(self->size * sizeof *operation->sizes)) {
        PyErr_SetString(PyExc_ValueError, "sizes");
        return 0;
    }
    return destination == Py_None || !PyObject_GetBuffer(destination, &call->memory.destination, PyBUF_WRITABLE);
}

static PyObject *submit_checked(PyObject *object, PyObject *arguments, enum form form, double seconds)
{
    struct communicator *self = (struct communicator *)object;
    struct call call = {.seconds = seconds};
    PyObject *made = NULL;

    if (take_checked(self, arguments, &call))
        made = submit(self, &call, form);
    else
        release_call(&call);
    PyBuffer_Release(&call.sizes);
    return made;
}

static PyObject *run(PyObject *self, PyObject *arguments)
{
    PyObject *call;
    double seconds;

    if (!PyArg_ParseTuple(arguments, "O!d", &PyTuple_Type, &call, &seconds))
        return NULL;
    return submit_checked(self, call, WAITS, seconds);
}

static PyObject *start(PyObject *self, PyObject *call)
{
    return submit_checked(self, call, STARTS, -1);
}

static PyObject *prepare(PyObject *self, PyObject *call)
{
    return submit_checked(self, call, PREPARES, -1);
}

static PyObject *segments_of(PyObject *object, PyObject *arguments)
{
    struct communicator *self = (struct communicator *)object;
    struct call call = {.seconds = -1};
    uint64_t segments = 0;

    if (take_checked(self, arguments, &call) && enter_library(self)) {
        segments = fanin_segments_of(self->library, &call.operation);
        leave_library(self);
    }
    release_call(&call);
    PyBuffer_Release(&call.sizes);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(segments);
}

PyMethodDef collective_methods[] = {
    {"_run", run, METH_VARARGS, "_run(call, seconds): do a collective that Python has checked. Returns its result."},
    {"_start", start, METH_O, "Start one. Returns a Request."},
    {"_prepare", prepare, METH_O, "Make one persistent. Returns a Request."},
    {"_segments_of", segments_of, METH_O, "Segments that one takes."},
    {NULL, NULL, 0, NULL},
};

/* ---- Methods ---- */

/* A C function can not tell as which method it is called, so each has its own. */
#define EACH_COLLECTIVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
#define FUNCTION(code, form, name)                                                                                     \
    static PyObject *name(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names)                   \
    {                                                                                                                  \
        return collective(self, code, form, given, count, names);                                                      \
    }
#define FUNCTIONS(code) FUNCTION(code, STARTS, start_##code) FUNCTION(code, WAITS, wait_for_##code)
EACH_COLLECTIVE(FUNCTIONS)

#define METHOD(name) {NULL, (PyCFunction)(void (*)(void))name, METH_FASTCALL | METH_KEYWORDS, NULL}
#define ENTRY(code) {METHOD(start_##code), METHOD(wait_for_##code)},
static PyMethodDef methods[COLLECTIVES][METHODS] = {EACH_COLLECTIVE(ENTRY)};

static void take_names(struct collective *row, PyObject *names)
{
    for (Py_ssize_t i = 0; i < row->arguments; i++) {
        row->names[i] = Py_NewRef(PyTuple_GetItem(names, i));
        PyUnicode_InternInPlace(&row->names[i]);
        while (row->places[i] < OTHER &&
               PyUnicode_CompareWithASCIIString(row->names[i], argument_names[row->places[i]]) != 0)
            row->places[i]++;
    }
}

PyObject *binding_methods(PyObject *module, PyObject *arguments)
{
    PyObject *names;
    const char *name[METHODS], *text[METHODS];
    struct collective row = {0};
    unsigned code;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "(IUppp(ppp)(ppp))O!(ssO)(ssO)", &code, &row.name, &row.is_vector, &row.reduces,
                          &row.divided, &row.brings.is_for[0], &row.brings.is_for[1], &row.brings.own,
                          &row.wants.is_for[0], &row.wants.is_for[1], &row.wants.own, &PyTuple_Type, &names,
                          &name[STARTS], &text[STARTS], &row.in_python[STARTS], &name[WAITS], &text[WAITS],
                          &row.in_python[WAITS]))
        return NULL;
    row.arguments = PyTuple_Size(names);
    if (code >= COLLECTIVES || row.arguments > MAX_ARGUMENTS)
        return PyErr_Format(PyExc_ValueError, "collective %u with %zd arguments", code, row.arguments);
    Py_INCREF(arguments); /* never freed: the methods point into it */
    take_names(&row, names);
    collectives[code] = row;
    for (int form = 0; form < METHODS; form++) {
        methods[code][form].ml_name = name[form];
        methods[code][form].ml_doc = text[form];
    }
    return Py_BuildValue("NN", PyDescr_NewMethod(binding_communicator_type, &methods[code][STARTS]),
                         PyDescr_NewMethod(binding_communicator_type, &methods[code][WAITS]));
}
