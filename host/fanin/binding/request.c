#include "binding.h"

#include <structmember.h>

PyTypeObject *binding_request_type;

struct request *new_request(struct communicator *communicator, struct fanin_request *request, struct call *call)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(binding_request_type, Py_tp_alloc);
    struct inflight *inflight = new_inflight(communicator, request, &call->memory);
    struct request *self = inflight ? (struct request *)allocate(binding_request_type, 0) : NULL;

    if (!self) {
        Py_DECREF(call->result);
        return NULL;
    }
    self->communicator = (struct communicator *)Py_NewRef((PyObject *)communicator);
    self->inflight = inflight;
    self->result = call->result;
    self->name = Py_NewRef(call->name);
    self->about = Py_XNewRef(call->about);
    self->conclude = Py_XNewRef(call->conclude);
    self->operation = call->operation;
    self->operation.source = self->operation.destination = NULL;
    self->operation.sizes = NULL;
    self->status = FANIN_PENDING;
    inflight->owner = (PyObject *)self;
    return self;
}

/* ---- The end of a request ---- */

static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static void release_inflight(struct inflight *inflight)
{
    struct memory memory = {inflight->source, inflight->destination};

    inflight->source.obj = inflight->destination.obj = NULL;
    release_memory(&memory);
}

void finish(struct request *self, enum fanin_status status)
{
    struct fanin_cqe cqe = {0};
    PyObject *value;

    if (self->is_done || self->is_concluding)
        return;
    self->is_concluding = 1;
    self->concluding_thread = PyThread_get_thread_ident();
    self->status = status;
    if (status == FANIN_SUCCESS && self->conclude) {
        value = PyObject_CallFunctionObjArgs(self->conclude, self, NULL);
        if (value) {
            Py_DECREF(self->result);
            self->result = value;
        } else {
            self->error = take_exception();
        }
    } else if (status != FANIN_SUCCESS) {
        fanin_failure(self->inflight->request, &cqe);
        value = failure(self->communicator, (PyObject *)self, self->name, status,
                        fanin_number(self->inflight->request), &cqe);
        self->error = value ? value : take_exception();
    }
    self->is_done = 1;
    self->is_concluding = 0;
    if (self->is_persistent)
        return;
    if (status == FANIN_SUCCESS)
        release_inflight(self->inflight);
    Py_CLEAR(self->about);
    Py_CLEAR(self->conclude);
}

static PyObject *outcome(struct request *self)
{
    if (!self->error)
        return Py_NewRef(self->result);
    raise_object(self->error);
    return NULL;
}

/* The library's status after at most `slice_ms`; FANIN_PENDING also while another thread closes the communicator. -1:
 * an exception is set. */
static int ask(struct request *self, uint32_t slice_ms)
{
    struct communicator *communicator = self->communicator;
    struct fanin_request *request = self->inflight->request;
    enum fanin_status status;

    if (communicator->is_inherited || !request) {
        enter_library(communicator); /* sets the exception */
        return -1;
    }
    if (communicator->is_closing) {
        if (slice_ms)
            sleep_a_moment();
        return FANIN_PENDING;
    }
    communicator->users++;
    Py_BEGIN_ALLOW_THREADS
    status = slice_ms ? fanin_wait(request, slice_ms) : fanin_test(request);
    Py_END_ALLOW_THREADS
    communicator->users--;
    return status;
}

PyObject *wait_for_result(struct request *self, double seconds)
{
    uint64_t end = seconds < 0 ? UINT64_MAX : fanin_now_ms() + (uint64_t)(seconds * 1000 + 0.999);

    while (!self->is_done) {
        uint64_t now = fanin_now_ms(), left = end > now ? end - now : 0;
        uint32_t slice = left < SLICE_MS ? (uint32_t)left : SLICE_MS;
        int status = self->is_concluding ? FANIN_PENDING : ask(self, slice);

        if (self->is_concluding) { /* in another thread */
            sleep_a_moment();
        } else if (status < 0) {
            return NULL;
        } else if (status != FANIN_PENDING) {
            finish(self, status);
            continue;
        }
        if (PyErr_CheckSignals())
            return NULL;
        if (!left && !self->is_done) {
            raise_new(PyObject_CallMethod((PyObject *)self->communicator, "_late", "Od", self, seconds));
            return NULL;
        }
    }
    return outcome(self);
}

/* Seconds of a time-out: None is -1. 0: an exception is set. */
static int take_seconds(struct request *self, PyObject *timeout, double *seconds)
{
    PyObject *checked;

    *seconds = -1;
    if (timeout == Py_None)
        return 1;
    checked = PyObject_CallMethod((PyObject *)self->communicator, "_seconds", "O", timeout);
    if (!checked)
        return 0;
    *seconds = PyFloat_AsDouble(checked);
    Py_DECREF(checked);
    return !PyErr_Occurred();
}

/* ---- Methods ---- */

static PyObject *request_wait(PyObject *object, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct request *self = (struct request *)object;
    PyObject *timeout = Py_None;
    double seconds;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O:wait", keywords, &timeout) ||
        !take_seconds(self, timeout, &seconds))
        return NULL;
    return wait_for_result(self, seconds);
}

static PyObject *request_test(PyObject *object, PyObject *unused)
{
    struct request *self = (struct request *)object;
    PyObject *result;

    (void)unused;
    if (!self->is_done && !self->is_concluding) {
        int status = ask(self, 0);

        if (status < 0)
            return NULL;
        if (status != FANIN_PENDING)
            finish(self, status);
    }
    if (!self->is_done)
        Py_RETURN_FALSE;
    result = outcome(self);
    if (!result)
        return NULL;
    Py_DECREF(result);
    Py_RETURN_TRUE;
}

static PyObject *request_progress(PyObject *object, PyObject *unused)
{
    struct request *self = (struct request *)object;
    struct communicator *communicator = self->communicator;
    struct fanin_request_progress now = self->progress;
    enum fanin_status status = FANIN_SUCCESS;

    (void)unused;
    if (communicator->is_inherited) {
        enter_library(communicator);
        return NULL;
    }
    if (self->inflight->request && !communicator->is_closing) {
        communicator->users++;
        Py_BEGIN_ALLOW_THREADS
        status = fanin_query(self->inflight->request, &now);
        Py_END_ALLOW_THREADS
        communicator->users--;
    }
    return PyObject_CallMethod((PyObject *)communicator, "_progress", "OiKKKi", self->name, (int)status,
                               (unsigned long long)now.done, (unsigned long long)now.segments,
                               (unsigned long long)now.missing, (int)now.missing_kind);
}

static PyObject *request_restart(PyObject *object, PyObject *unused)
{
    struct request *self = (struct request *)object;
    enum fanin_status status;

    (void)unused;
    if (!enter_library(self->communicator))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = fanin_restart(self->inflight->request);
    Py_END_ALLOW_THREADS
    leave_library(self->communicator);
    if (status == FANIN_SUCCESS) {
        Py_CLEAR(self->error);
        self->status = FANIN_PENDING;
        self->is_done = 0;
        Py_RETURN_TRUE;
    }
    if (status == FANIN_INVALID_REQUEST)
        Py_RETURN_FALSE;
    raise_refusal(self->communicator, object, self->name, status);
    return NULL;
}

static PyObject *request_received(PyObject *object, PyObject *unused)
{
    const uint64_t *sizes;
    uint64_t length;
    void *address;

    (void)unused;
    fanin_result(((struct request *)object)->inflight->request, &address, &length, &sizes);
    return PyMemoryView_FromMemory(length ? address : "", (Py_ssize_t)length, PyBUF_READ);
}

static PyObject *request_text(PyObject *object)
{
    struct request *self = (struct request *)object;
    const struct fanin_operation *operation = &self->operation;
    PyObject *about = NULL, *text;

    if (self->about)
        about = PyObject_Str(self->about);
    else if (self->is_done)
        about = Py_NewRef(self->name);
    else
        about = PyObject_CallMethod((PyObject *)self->communicator, "_describe", "OIIIIK", self->name, operation->root,
                                    operation->op, operation->dtype, operation->tag,
                                    (unsigned long long)operation->block);
    text = about ? PyUnicode_FromFormat("%U on rank %u", about, (unsigned)self->communicator->rank) : NULL;
    Py_XDECREF(about);
    return text;
}

/* ---- The object ---- */

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    struct request *self = (struct request *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->communicator);
    Py_VISIT(self->result);
    Py_VISIT(self->about);
    Py_VISIT(self->conclude);
    Py_VISIT(self->error);
    return 0;
}

static int clear(PyObject *object)
{
    struct request *self = (struct request *)object;

    Py_CLEAR(self->result);
    Py_CLEAR(self->about);
    Py_CLEAR(self->conclude);
    Py_CLEAR(self->error);
    return 0;
}

/* The communicator keeps a request under way, and its memory. */
static void deallocate(PyObject *object)
{
    struct request *self = (struct request *)object;
    struct communicator *communicator = self->communicator;
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    if (communicator && self->inflight) {
        self->inflight->owner = NULL;
        communicator->ownerless++;
        if (self->is_done)
            free_inflight(communicator, self->inflight, self->status != FANIN_SUCCESS);
    }
    clear(object);
    Py_CLEAR(self->name);
    Py_XDECREF((PyObject *)communicator);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"wait", (PyCFunction)(void (*)(void))request_wait, METH_VARARGS | METH_KEYWORDS,
     "wait($self, timeout=None)\n--\n\nThe result, when it is there: `out`, or a new array.\n\n"
     "Raises Timeout after `timeout` seconds (the request goes on and can be waited for again), or the exception of a\n"
     "failed request."},
    {"test", request_test, METH_NOARGS,
     "test($self)\n--\n\nWhether it has ended, without waiting. Raises the exception of a failed request."},
    {"progress", request_progress, METH_NOARGS,
     "progress($self)\n--\n\nHow far it is, and which ranks it waits for, as the device knows it now."},
    {"_restart", request_restart, METH_NOARGS, "Start a persistent request. False: it is still under way."},
    {"_received", request_received, METH_NOARGS, "What has come. It lives as long as the request."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"name", T_OBJECT, offsetof(struct request, name), READONLY, "The name of the collective."},
    {"done", T_BOOL, offsetof(struct request, is_done), READONLY,
     "Whether it has ended, as far as seen; test() looks."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "A collective under way. Its arrays must not be touched before it is done."},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_str, request_text},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec request_spec = {"fanin.Request", sizeof(struct request), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
