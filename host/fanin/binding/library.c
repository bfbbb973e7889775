#include "binding.h"

#include <time.h>

int enter_library(struct communicator *self)
{
    PyObject *outcome;

    if (self->library && !self->is_closing) {
        self->users++;
        return 1;
    }
    outcome = PyObject_CallMethod((PyObject *)self, "require_open", NULL);
    if (outcome)
        PyErr_SetString(PyExc_RuntimeError, "the communicator is being closed");
    Py_XDECREF(outcome);
    return 0;
}

void leave_library(struct communicator *self)
{
    self->users--;
}

void sleep_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = 200000};

    Py_BEGIN_ALLOW_THREADS
    nanosleep(&moment, NULL);
    Py_END_ALLOW_THREADS
}

PyObject *failure(struct communicator *self, PyObject *about, PyObject *name, enum fanin_status status,
                  uint64_t number, const struct fanin_cqe *cqe)
{
    return PyObject_CallMethod((PyObject *)self, "_failure", "OOiK(KiiKIIIIKiI)", about, name, (int)status,
                               (unsigned long long)number, (unsigned long long)cqe->wr_id, (int)cqe->status,
                               (int)cqe->opcode, (unsigned long long)cqe->byte_length, cqe->qp, cqe->jid, cqe->mid,
                               cqe->positions, (unsigned long long)cqe->missing, (int)cqe->missing_kind,
                               cqe->lost_device);
}

void raise_object(PyObject *exception)
{
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
}

void raise_new(PyObject *exception)
{
    if (exception)
        raise_object(exception);
    Py_XDECREF(exception);
}

void raise_refusal(struct communicator *self, PyObject *about, PyObject *name, enum fanin_status status)
{
    const struct fanin_cqe none = {0};

    raise_new(failure(self, about, name, status, 0, &none));
}
