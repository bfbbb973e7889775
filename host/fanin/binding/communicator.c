#include "binding.h"

#include <stdlib.h>
#include <structmember.h>
#include <unistd.h>

/* A communicator that was dropped without being closed. */
struct dropped {
    struct dropped *next;
    pid_t process; /* which may abandon it */
    struct communicator remains; /* no longer a Python object */
};
static struct dropped *dropped;

/* ---- Joining and leaving ---- */

enum how { JOINS, DUPLICATES, SPLITS, SHRINKS, GROWS }; /* membership/member.py: How */

/* Begin to join a job, alone or with the ranks of `parent`. number: rank, slots, nothing, time-out in milliseconds, or
 * number of newcomers. address: of a struct fanin_job, or of an array of struct fanin_choice or struct
 * fanin_newcomer. */
static enum fanin_status begin_as(enum how how, struct fanin_context *device, struct fanin_communicator *parent,
                                  uint32_t number, const void *address, struct fanin_communicator **made)
{
    switch (how) {
    case DUPLICATES: return fanin_begin_dup(parent, number, made);
    case SPLITS: return fanin_begin_split(parent, address, made);
    case SHRINKS: return fanin_begin_shrink(parent, number, made);
    case GROWS: return fanin_begin_grow(parent, address, number, made);
    default: return fanin_begin_join(device, address, number, made);
    }
}

/* No other Python code runs before this object owns what the library made. */
static PyObject *begin(PyObject *object, PyObject *arguments)
{
    struct communicator *self = (struct communicator *)object, *parent;
    unsigned long long device, address;
    struct fanin_communicator *made = NULL;
    PyObject *connection, *given;
    enum fanin_status status;
    uint32_t how, number;

    if (!PyArg_ParseTuple(arguments, "KOIOIK", &device, &connection, &how, &given, &number, &address))
        return NULL;
    parent = given == Py_None ? NULL : (struct communicator *)given;
    if (parent && !enter_library(parent))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = begin_as(how, (struct fanin_context *)(uintptr_t)device, parent ? parent->library : NULL, number,
                      (const void *)(uintptr_t)address, &made);
    Py_END_ALLOW_THREADS
    if (parent)
        leave_library(parent);
    if (status == FANIN_SUCCESS && made) {
        self->library = made;
        self->device = (struct fanin_context *)(uintptr_t)device;
        self->connection = Py_NewRef(connection);
    }
    return PyLong_FromLong(status);
}

static PyObject *finish_join(PyObject *object, PyObject *arguments)
{
    struct communicator *self = (struct communicator *)object;
    unsigned long long reply;
    enum fanin_status status;
    unsigned timeout_ms;

    if (!PyArg_ParseTuple(arguments, "KI", &reply, &timeout_ms) || !enter_library(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = fanin_finish_join(self->library, (struct fanin_join_reply *)(uintptr_t)reply, timeout_ms);
    Py_END_ALLOW_THREADS
    self->rank = fanin_rank(self->library);
    self->size = fanin_size(self->library);
    leave_library(self);
    return PyLong_FromLong(status);
}

#define NO_NUMBER UINT64_MAX /* of a message: none has failed */

static PyObject *flush(PyObject *object, PyObject *arguments)
{
    struct communicator *self = (struct communicator *)object;
    struct fanin_communicator_state now;
    PyObject *name;
    enum fanin_status status;
    unsigned timeout_ms;

    if (!PyArg_ParseTuple(arguments, "I", &timeout_ms) || !enter_library(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = fanin_flush(self->library, timeout_ms);
    fanin_communicator_state(self->library, &now);
    Py_END_ALLOW_THREADS
    leave_library(self);
    if (status == FANIN_SUCCESS || status == FANIN_PENDING)
        return PyLong_FromLong(status);
    name = PyUnicode_FromString("flush");
    raise_new(name ? failure(self, Py_None, name, status, NO_NUMBER, &now.ended) : NULL);
    Py_XDECREF(name);
    return NULL;
}

static PyObject *job(PyObject *object, PyObject *unused)
{
    struct communicator *self = (struct communicator *)object;

    (void)unused;
    return PyLong_FromVoidPtr(self->library ? (void *)(uintptr_t)fanin_job_of(self->library) : NULL);
}

/* Take the outcome of a request that has ended, and free it before its device closes. 0: this thread does so already,
 * further up its stack; then the request is freed with its object. */
static int take_outcome(struct inflight *inflight)
{
    struct request *owner = (struct request *)inflight->owner;

    if (owner && owner->is_concluding && owner->concluding_thread == PyThread_get_thread_ident())
        return 0;
    Py_XINCREF((PyObject *)owner); /* other threads may drop it meanwhile */
    while (owner && owner->is_concluding) /* in another thread */
        sleep_a_moment();
    if (owner && !owner->is_done)
        finish(owner, fanin_test(inflight->request));
    if (owner)
        fanin_query(inflight->request, &owner->progress);
    fanin_free(inflight->request);
    inflight->request = NULL;
    Py_XDECREF((PyObject *)owner); /* last: may free the inflight */
    return 1;
}

/* Take the outcomes of the requests of a job that has been left. Restarts each time: take_outcome may run any code. */
static void take_outcomes(struct communicator *self)
{
    struct inflight *each = self->requests;

    while (each) {
        struct request *owner = (struct request *)each->owner;
        int has_ended = each->request && ((owner && owner->is_done) || fanin_test(each->request) != FANIN_PENDING);

        if (has_ended && take_outcome(each))
            each = self->requests;
        else
            each = each->next == self->requests ? NULL : each->next;
    }
}

/* Leave or abandon the job. No other thread is in the library with this communicator. */
static enum fanin_status end(struct communicator *self, int leaves, uint32_t timeout_ms)
{
    struct fanin_communicator *library = self->library;
    enum fanin_status status;
    int stands_still;

    Py_BEGIN_ALLOW_THREADS
    status = leaves ? fanin_leave(library, timeout_ms) : fanin_abandon(library);
    stands_still = fanin_device_stands_still(self->device);
    Py_END_ALLOW_THREADS
    self->is_unconfirmed = stands_still || (status != FANIN_SUCCESS && status != FANIN_DEVICE_LOST);
    self->library = NULL;
    take_outcomes(self);
    return status;
}

static PyObject *end_job(PyObject *object, PyObject *arguments)
{
    struct communicator *self = (struct communicator *)object;
    unsigned int timeout_ms;
    int leaves;
    enum fanin_status status = FANIN_SUCCESS;

    if (!PyArg_ParseTuple(arguments, "pI", &leaves, &timeout_ms))
        return NULL;
    if (self->is_closing) {
        while (self->library) /* another thread closes it */
            sleep_a_moment();
    } else if (self->library) {
        self->is_closing = 1;
        while (self->users)
            sleep_a_moment();
        status = end(self, leaves, timeout_ms);
        reap(self);
    }
    return PyLong_FromLong(status);
}

static PyObject *forget(PyObject *object, PyObject *unused)
{
    struct communicator *self = (struct communicator *)object;

    (void)unused;
    self->is_inherited = self->library != NULL || self->requests;
    self->library = NULL;
    self->users = 0;
    Py_RETURN_NONE;
}

static PyObject *state(PyObject *object, PyObject *unused)
{
    struct communicator *self = (struct communicator *)object;
    struct fanin_communicator_state now;
    PyObject *tuple;

    (void)unused;
    if (!enter_library(self))
        return NULL;
    reap(self);
    Py_BEGIN_ALLOW_THREADS
    fanin_progress();
    fanin_communicator_state(self->library, &now);
    Py_END_ALLOW_THREADS
    leave_library(self);
    tuple = Py_BuildValue("KKKKi", (unsigned long long)now.posted, (unsigned long long)now.outstanding,
                          (unsigned long long)now.backlog, (unsigned long long)now.ended_number,
                          (int)now.ended.status);
    return tuple;
}

static PyObject *under_way(PyObject *object, PyObject *unused)
{
    struct communicator *self = (struct communicator *)object;
    struct inflight *each = self->requests;
    PyObject *list = PyList_New(0);

    (void)unused;
    if (!list || !each)
        return list;
    do {
        struct request *owner = (struct request *)each->owner;

        if (owner && !owner->is_done && PyList_Append(list, each->owner)) {
            Py_DECREF(list);
            return NULL;
        }
    } while ((each = each->next) != self->requests);
    return list;
}

/* ---- The end of the object ---- */

/* Called by the interpreter in the main thread. */
static int abandon_dropped(void *unused)
{
    (void)unused;
    while (dropped) {
        struct dropped *first = dropped;

        dropped = first->next;
        if (first->process == getpid()) {
            end(&first->remains, 0, 0);
            reap(&first->remains);
        }
        Py_XDECREF(first->remains.connection);
        free(first);
    }
    return 0;
}

static void deallocate(PyObject *object)
{
    struct communicator *self = (struct communicator *)object;
    PyTypeObject *type = Py_TYPE(object);
    struct dropped *remains = self->library ? malloc(sizeof *remains) : NULL;

    if (remains) { /* later: leaving takes time, and the garbage collector runs anywhere */
        *remains = (struct dropped){dropped, getpid(), *self};
        dropped = remains;
        Py_AddPendingCall(abandon_dropped, NULL);
    } else if (!self->library) {
        Py_XDECREF(self->connection);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef life_methods[] = {
    {"_begin", begin, METH_VARARGS,
     "_begin(device, connection, how, parent, number, address): begin to join. Returns the status."},
    {"_finish_join", finish_join, METH_VARARGS,
     "_finish_join(reply, timeout_ms): wait for the others, and write what is known. Returns the status."},
    {"_flush", flush, METH_VARARGS,
     "_flush(timeout_ms): wait for the others. Returns the status, or raises why they have nothing."},
    {"_job", job, METH_NOARGS, "The address of the struct fanin_job; 0: there is none any more."},
    {"_end_job", end_job, METH_VARARGS, "Leave or abandon the job. Returns the status."},
    {"_forget", forget, METH_NOARGS, "Let go of everything in a forked child, where it belongs to the parent."},
    {"_state", state, METH_NOARGS,
     "posted, outstanding, backlog, and number and status of the message that ended the job."},
    {"_under_way", under_way, METH_NOARGS, "The requests that have not been seen to end, in order."},
};
static PyMethodDef methods[64];

static PyMemberDef members[] = {
    {"rank", T_UINT, offsetof(struct communicator, rank), READONLY, "This rank."},
    {"size", T_UINT, offsetof(struct communicator, size), READONLY, "Number of ranks."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "One rank of one job, as libfanin has it."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
static PyType_Spec spec = {"fanin._binding.Communicator", sizeof(struct communicator), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *binding_communicator_type;

PyType_Spec *communicator_spec(const PyMethodDef *of_collectives)
{
    PyMethodDef *end_of_methods = methods;

    for (size_t i = 0; i < sizeof life_methods / sizeof *life_methods; i++)
        *end_of_methods++ = life_methods[i];
    for (const PyMethodDef *each = of_collectives; each->ml_name; each++)
        *end_of_methods++ = *each;
    return &spec;
}
