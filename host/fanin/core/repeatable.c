/* A blocking collective as a method of Python: its form, a Python function, does any call, and what was done is done
 * again without that if it can be (again.c). What anybody asks of it (name, text, signature, source) the form answers. */
#include "again.h"
#include "fanin.h"

_Static_assert(sizeof(PyObject) == FANIN_OBJECT_HEAD, "again.py looks whether the interpreter agrees");

struct repeatable {
    PyObject head;
    vectorcallfunc vectorcall;
    PyObject *form;               /* does any call */
    PyObject *function;           /* as in struct call */
    PyObject *weak_references;
};

static PyObject *vectorcall(PyObject *self, PyObject *const *arguments, size_t flagged, PyObject *names)
{
    const struct repeatable *method = (const struct repeatable *)self;
    Py_ssize_t count = (Py_ssize_t)(flagged & ~PY_VECTORCALL_ARGUMENTS_OFFSET);
    struct call call = {.function = method->function, .names = names, .named = names ? PyTuple_Size(names) : 0};
    PyObject *result;

    if (count) {
        call.group = arguments[0];
        call.values = arguments + 1;
        call.unnamed = count - 1;
        if (fanin_again(&call, &result))
            return result;
    }
    return PyObject_Vectorcall(method->form, arguments, flagged, names);
}

static PyObject *bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    if (object && object != &_Py_NoneStruct)
        return PyMethod_New(self, object);
    Py_IncRef(self);
    return self;
}

static PyObject *attribute(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((struct repeatable *)self)->form, name);
}

static PyObject *text(PyObject *self)
{
    return PyObject_Repr(((struct repeatable *)self)->form);
}

static void end(PyObject *self)
{
    struct repeatable *method = (struct repeatable *)self;
    PyObject *type = self->ob_type;

    if (method->weak_references)
        PyObject_ClearWeakRefs(self);
    Py_DecRef(method->form);
    Py_DecRef(method->function);
    PyObject_Free(self);
    Py_DecRef(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct repeatable, vectorcall), READONLY, 0},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct repeatable, weak_references), READONLY, 0},
    {0, 0, 0, 0, 0},
};

static PyType_Slot slots[] = {
    {Py_tp_call, {.ternary = PyVectorcall_Call}},
    {Py_tp_descr_get, {.ternary = bind}},
    {Py_tp_getattro, {.getattro = attribute}},
    {Py_tp_repr, {.repr = text}},
    {Py_tp_dealloc, {.end = end}},
    {Py_tp_members, {.data = members}},
    {0, {0}},
};

static PyType_Spec spec = {"fanin.Repeatable", sizeof(struct repeatable), 0,
                           Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

/* With the global lock: a method that does what `form` does, which calls `function` for what it does not know yet. The
 * caller has seen to it that this is CPython, whose objects begin as PyObject says. NULL: Python has an exception. */
__attribute__((visibility("default"))) PyObject *fanin_repeatable(PyObject *form, PyObject *function)
{
    static PyObject *type;
    struct repeatable *method;

    if (!type && !(type = PyType_FromSpec(&spec)))
        return 0;
    method = (struct repeatable *)PyType_GenericAlloc(type, 0);
    if (!method)
        return 0;
    Py_IncRef(form);
    Py_IncRef(function);
    method->vectorcall = vectorcall;
    method->form = form;
    method->function = function;
    return &method->head;
}
