/* The Python extension fanin._binding: communicators and requests of libfanin as Python objects.
 *
 * It is written against CPython's limited API, so one build serves Python 3.11 and later. Calls into the library
 * release the GIL; everything else here runs with it, which is what protects the fields of these structs. */
#ifndef FANIN_BINDING_H
#define FANIN_BINDING_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "fanin.h"

enum { SLICE_MS = 100 }; /* longest stay in the library, so that signal handlers run */

/* configuration.c: objects that Python hands over at import. */
extern PyObject *binding_empty;      /* numpy.empty */
extern PyTypeObject *binding_array_type; /* numpy.ndarray */
extern PyObject *binding_dtype_list[];   /* the numpy dtype of each enum fanin_dtype; NULL: it has none */
extern uint32_t binding_dtype_count;
extern PyObject *binding_operations; /* dict: name to enum fanin_op */
PyObject *configure(PyObject *module, PyObject *arguments);

/* A request of the library, and the memory that the device may reach on its behalf. It is in the list of its
 * communicator, which keeps it when the program has let go of its Request. */
struct inflight {
    struct inflight *next, *previous;
    struct fanin_request *request; /* NULL: freed */
    Py_buffer source, destination; /* obj NULL: none */
    PyObject *owner;               /* the Request, borrowed; NULL: the program has let go of it */
};

/* Base class of fanin.Communicator: this process as one rank of one job. */
struct communicator {
    PyObject_HEAD
    struct fanin_communicator *library; /* NULL: not joined yet, left, or inherited by a forked child */
    struct fanin_context *device;
    PyObject *connection;      /* keeps the device open */
    struct inflight *requests; /* head of a ring */
    uint32_t rank, size;
    uint32_t ownerless; /* requests that the program has let go of */
    uint32_t users;     /* threads that are inside the library with this communicator */
    char is_closing;
    char is_inherited;
    char is_unconfirmed; /* it was left, and the device may still write to memory of requests */
};

/* A collective under way, or a persistent one. */
struct request {
    PyObject_HEAD
    struct communicator *communicator;
    struct inflight *inflight;
    PyObject *result;
    PyObject *name;
    PyObject *about;    /* Python's description; NULL: `operation` says all */
    PyObject *conclude; /* called with the request when it is complete; returns the result. NULL: none */
    PyObject *error;    /* the exception with which it has ended */
    struct fanin_operation operation; /* without pointers */
    struct fanin_request_progress progress; /* of the end, when the job has been left */
    enum fanin_status status;
    char is_done;
    char is_concluding;
    unsigned long concluding_thread;
    char is_persistent;
};

/* Source and destination of one collective. */
struct memory {
    Py_buffer source, destination;
};

/* A collective, ready for the library. */
struct call {
    PyObject *name, *result;    /* result: owned */
    PyObject *about, *conclude; /* as of a Request */
    double seconds;             /* of waiting; < 0: no limit */
    struct fanin_operation operation;
    struct memory memory;
    Py_buffer sizes;
};

/* Sizes of an array: `first`, if there is such a length, and `count` others. */
enum { NO_LENGTH = -1 };
struct extent {
    Py_ssize_t first;
    const Py_ssize_t *others;
    int count;
    uint64_t bytes;
};

/* buffers.c */
/* View of contiguous memory, and the code of its elements. FANIN_DTYPE_NONE: it is not contiguous, or not of a plain
 * native type; no exception is set. */
uint32_t view_plain(PyObject *object, Py_buffer *view, int writable);
/* New reference: a numpy array for elements of `dtype`, and the view of it. */
PyObject *new_array(uint32_t dtype, const struct extent *extent, Py_buffer *view);
void release_memory(struct memory *memory);

/* library.c */
/* Enter the library with a communicator that is open, and leave it again. 0: an exception is set. */
int enter_library(struct communicator *self);
void leave_library(struct communicator *self);
/* Without the GIL. */
void sleep_a_moment(void);
/* New reference: the exception for a status. `about`: the request, or its description. */
PyObject *failure(struct communicator *self, PyObject *about, PyObject *name, enum fanin_status status,
                  uint64_t number, const struct fanin_cqe *cqe);
void raise_object(PyObject *exception);
/* The same, and give up the reference. NULL: an exception is set already. */
void raise_new(PyObject *exception);
/* Raise the exception for a start that was refused: nothing is under way. `about`: as of failure. */
void raise_refusal(struct communicator *self, PyObject *about, PyObject *name, enum fanin_status status);

/* inflight.c */
struct inflight *new_inflight(struct communicator *self, struct fanin_request *request, struct memory *memory);
/* Free a request that the program has let go of, and that has ended. Keeps its memory where the device may still
 * write to it. */
void free_inflight(struct communicator *self, struct inflight *inflight, int has_failed);
/* Free the requests that the program has let go of and that have ended since. */
void reap(struct communicator *self);

/* request.c */
extern PyTypeObject *binding_request_type;
extern PyType_Spec request_spec;
/* A Request that takes over the request of the library, and the memory and the result of the call. */
struct request *new_request(struct communicator *communicator, struct fanin_request *request, struct call *call);
/* It has ended with `status`: find its result or its exception, unless another thread does so. */
void finish(struct request *self, enum fanin_status status);
/* Wait for its end. `seconds` < 0: without limit. New reference: the result. */
PyObject *wait_for_result(struct request *self, double seconds);

/* communicator.c */
extern PyTypeObject *binding_communicator_type;
/* Its methods are those of its life, and those given. */
PyType_Spec *communicator_spec(const PyMethodDef *of_collectives);

/* collectives.c */
extern PyMethodDef collective_methods[];
PyObject *binding_methods(PyObject *module, PyObject *arguments);
#endif
