/* The Python extension fanin._binding: communicators and requests of libfanin as Python objects, in CPython's limited
 * API, so that one build serves Python 3.11 and later. Calls into the library release the GIL; it protects all fields
 * of these structures. */
#ifndef FANIN_BINDING_H
#define FANIN_BINDING_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "fanin.h"

enum { SLICE_MS = 100 }; /* longest call of the library, so that signal handlers run */

/* configuration.c: objects that Python passes at import. */
extern PyObject *binding_empty;      /* numpy.empty */
extern PyTypeObject *binding_array_type; /* numpy.ndarray */
extern PyObject *binding_dtype_list[];   /* the numpy dtype of each enum fanin_dtype, or NULL */
extern uint32_t binding_dtype_count;
extern PyObject *binding_operations; /* dict: name to enum fanin_op */
PyObject *configure(PyObject *module, PyObject *arguments);

/* A request of the library, and its memory. It is in the list of its communicator, which keeps it when the program has
 * dropped the Request. */
struct inflight {
    struct inflight *next, *previous;
    struct fanin_request *request; /* NULL: freed */
    Py_buffer source, destination; /* obj NULL: none */
    PyObject *owner;               /* the Request, borrowed; NULL: the program has dropped it */
};

/* Base class of fanin.Communicator. */
struct communicator {
    PyObject_HEAD
    struct fanin_communicator *library; /* NULL: not joined yet, left, or inherited by a forked child */
    struct fanin_context *device;
    PyObject *connection;      /* keeps the device open */
    struct inflight *requests; /* head of a ring */
    uint32_t rank, size;
    uint32_t ownerless; /* requests that the program has dropped */
    uint32_t users;     /* threads in the library with this communicator */
    char is_closing;
    char is_inherited;
    char is_unconfirmed; /* after leaving, the device may still write to memory of requests */
};

/* A collective under way, or a persistent one. */
struct request {
    PyObject_HEAD
    struct communicator *communicator;
    struct inflight *inflight;
    PyObject *result;
    PyObject *name;
    PyObject *about;    /* Python's description; NULL: see `operation` */
    PyObject *conclude; /* called with the complete request, returns the result; or NULL */
    PyObject *error;    /* the exception with which it has ended */
    struct fanin_operation operation; /* without pointers */
    struct fanin_request_progress progress; /* at the end, when the job has been left */
    enum fanin_status status;
    char is_done;
    char is_concluding;
    unsigned long concluding_thread;
    char is_persistent;
};

struct memory {
    Py_buffer source, destination;
};

struct call {
    PyObject *name, *result;    /* result: owned */
    PyObject *about, *conclude; /* as of a Request */
    double seconds;             /* of waiting; < 0: no limit */
    struct fanin_operation operation;
    struct memory memory;
    Py_buffer sizes;
};

/* Shape of an array: `first`, unless NO_LENGTH, and `count` others. */
enum { NO_LENGTH = -1 };
struct extent {
    Py_ssize_t first;
    const Py_ssize_t *others;
    int count;
    uint64_t bytes;
};

/* buffers.c */
/* View of contiguous memory, and the type of its elements. FANIN_DTYPE_NONE, without an exception: not contiguous, or
 * not of a plain native type. */
uint32_t view_plain(PyObject *object, Py_buffer *view, int writable);
/* New reference: a numpy array of `dtype`; and its view. */
PyObject *new_array(uint32_t dtype, const struct extent *extent, Py_buffer *view);
void release_memory(struct memory *memory);

/* library.c */
/* Enter the library with an open communicator, and leave it. 0: an exception is set. */
int enter_library(struct communicator *self);
void leave_library(struct communicator *self);
/* Without the GIL. */
void sleep_a_moment(void);
/* New reference: the exception for a status. `about`: the request, or its description. */
PyObject *failure(struct communicator *self, PyObject *about, PyObject *name, enum fanin_status status,
                  uint64_t number, const struct fanin_cqe *cqe);
void raise_object(PyObject *exception);
/* Raise an exception and drop the reference. NULL: one is set already. */
void raise_new(PyObject *exception);
/* Raise the exception for a refused start. `about`: as of failure. */
void raise_refusal(struct communicator *self, PyObject *about, PyObject *name, enum fanin_status status);

/* inflight.c */
struct inflight *new_inflight(struct communicator *self, struct fanin_request *request, struct memory *memory);
/* Free a dropped request that has ended; keeps its memory if the device may still write to it. */
void free_inflight(struct communicator *self, struct inflight *inflight, int has_failed);
/* Free all dropped requests that have ended. */
void reap(struct communicator *self);

/* request.c */
extern PyTypeObject *binding_request_type;
extern PyType_Spec request_spec;
/* A Request that owns the library's request, and the memory and the result of the call. */
struct request *new_request(struct communicator *communicator, struct fanin_request *request, struct call *call);
/* Find the result or the exception of a request that has ended with `status`, unless another thread does. */
void finish(struct request *self, enum fanin_status status);
PyObject *wait_for_result(struct request *self, double seconds); /* new reference; seconds < 0: no limit */

/* communicator.c */
extern PyTypeObject *binding_communicator_type;
/* With the methods of this file and those given. */
PyType_Spec *communicator_spec(const PyMethodDef *of_collectives);

/* collectives.c */
extern PyMethodDef collective_methods[];
PyObject *binding_methods(PyObject *module, PyObject *arguments);
#endif
