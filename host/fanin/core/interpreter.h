/* What is used of CPython's stable ABI (https://docs.python.org/3/c-api/stable.html), and PyMethod_New, declared here
 * since Python.h need not be installed. Vectorcall is part of that ABI as of 3.12, and was the same before. In a process
 * without an interpreter the functions are absent, and nobody calls what would call them. */
#ifndef FANIN_INTERPRETER_H
#define FANIN_INTERPRETER_H
#include <stddef.h>
#include <stdint.h>

#pragma weak PyErr_Clear
#pragma weak PyEval_RestoreThread
#pragma weak PyEval_SaveThread
#pragma weak PyGC_Disable
#pragma weak PyGC_Enable
#pragma weak PyList_Append
#pragma weak PyList_GetItem
#pragma weak PyList_SetSlice
#pragma weak PyList_Size
#pragma weak PyLong_AsUnsignedLongLong
#pragma weak PyMethod_New
#pragma weak PyObject_CallFunctionObjArgs
#pragma weak PyObject_ClearWeakRefs
#pragma weak PyObject_Free
#pragma weak PyObject_GetAttr
#pragma weak PyObject_Repr
#pragma weak PyObject_Vectorcall
#pragma weak PySet_Add
#pragma weak PySet_Size
#pragma weak PyTuple_GetItem
#pragma weak PyTuple_New
#pragma weak PyTuple_SetItem
#pragma weak PyTuple_Size
#pragma weak PyType_FromSpec
#pragma weak PyType_GenericAlloc
#pragma weak PyType_IsSubtype
#pragma weak PyVectorcall_Call
#pragma weak Py_DecRef
#pragma weak Py_IncRef
#pragma weak _Py_FalseStruct
#pragma weak _Py_NoneStruct
#pragma weak _Py_TrueStruct

typedef intptr_t Py_ssize_t;

typedef struct object { /* with a global lock, and without debugging of references */
    Py_ssize_t ob_refcnt;
    struct object *ob_type;
} PyObject;

typedef PyObject *(*vectorcallfunc)(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *names);

typedef PyObject *(*ternaryfunc)(PyObject *, PyObject *, PyObject *);
typedef PyObject *(*getattrofunc)(PyObject *, PyObject *);
typedef PyObject *(*reprfunc)(PyObject *);
typedef void (*destructor)(PyObject *);

typedef struct {
    int slot;
    union { /* Python's own is a void pointer, which no function's is in C11 */
        ternaryfunc ternary;
        getattrofunc getattro;
        reprfunc repr;
        destructor end;
        void *data;
    } as;
} PyType_Slot;

typedef struct {
    const char *name;
    int basicsize, itemsize;
    unsigned int flags;
    PyType_Slot *slots;
} PyType_Spec;

typedef struct {
    const char *name;
    int type;
    Py_ssize_t offset;
    int flags;
    const char *doc;
} PyMemberDef;

enum {
    Py_tp_call = 50,
    Py_tp_dealloc = 52,
    Py_tp_descr_get = 54,
    Py_tp_getattro = 58,
    Py_tp_repr = 66,
    Py_tp_members = 72
};
enum { T_PYSSIZET = 19, READONLY = 1 };
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1u << 7)
#define Py_TPFLAGS_IMMUTABLETYPE (1u << 8)
#define Py_TPFLAGS_HAVE_VECTORCALL (1u << 11)
#define Py_TPFLAGS_METHOD_DESCRIPTOR (1u << 17)
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

extern PyObject _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct;

void PyErr_Clear(void);
void PyEval_RestoreThread(void *thread);
void *PyEval_SaveThread(void);
int PyGC_Disable(void);
int PyGC_Enable(void);
int PyList_Append(PyObject *list, PyObject *item);
PyObject *PyList_GetItem(PyObject *list, Py_ssize_t index); /* borrowed */
int PyList_SetSlice(PyObject *list, Py_ssize_t low, Py_ssize_t high, PyObject *items);
Py_ssize_t PyList_Size(PyObject *list);
unsigned long long PyLong_AsUnsignedLongLong(PyObject *number);
PyObject *PyMethod_New(PyObject *function, PyObject *self);
PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
void PyObject_ClearWeakRefs(PyObject *object);
void PyObject_Free(void *object);
PyObject *PyObject_GetAttr(PyObject *object, PyObject *name);
PyObject *PyObject_Repr(PyObject *object);
PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *names);
int PySet_Add(PyObject *set, PyObject *key);
Py_ssize_t PySet_Size(PyObject *set);
PyObject *PyTuple_GetItem(PyObject *tuple, Py_ssize_t index); /* borrowed */
PyObject *PyTuple_New(Py_ssize_t length);
int PyTuple_SetItem(PyObject *tuple, Py_ssize_t index, PyObject *item); /* takes the reference */
Py_ssize_t PyTuple_Size(PyObject *tuple);
PyObject *PyType_FromSpec(PyType_Spec *spec);
PyObject *PyType_GenericAlloc(PyObject *type, Py_ssize_t items);
int PyType_IsSubtype(PyObject *type, PyObject *base);
PyObject *PyVectorcall_Call(PyObject *callable, PyObject *tuple, PyObject *names);
void Py_DecRef(PyObject *object);
void Py_IncRef(PyObject *object);
#endif
