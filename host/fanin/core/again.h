/* A blocking call of Python, as it came. */
#ifndef FANIN_AGAIN_H
#define FANIN_AGAIN_H
#include "interpreter.h"

struct call {
    PyObject *group;              /* the communicator */
    PyObject *function;           /* which collective: what makes its request */
    PyObject *const *values;      /* of the other arguments: those without a name, then those with one */
    Py_ssize_t unnamed;
    PyObject *names;              /* a tuple of those; NULL: there are none */
    Py_ssize_t named;
};

/* With the global lock. 0: it is not known, or something else is under way: nothing was done. Else `result` is what it
 * returns, or NULL where Python has an exception. */
int fanin_again(const struct call *call, PyObject **result);
#endif
