#include "binding.h"

static PyMethodDef functions[] = {
    {"configure", configure, METH_VARARGS,
     "configure(array_type, empty, dtypes, operations): numpy.ndarray and numpy.empty, the dtype of each type code,\n"
     "and the code of each operation."},
    {"methods", binding_methods, METH_VARARGS,
     "methods(row, names, start, wait): the methods by which Communicator starts a collective, and waits for it.\n\n"
     "row: code, name, is_vector, reduces, divided, and what ranks bring and want: whether ranks other than the root\n"
     "do, whether the root does, and own. names: of the arguments. start, wait: name and text of the method, and its\n"
     "form in Python, which is called with all that the method does not do by itself."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "fanin._binding", "Communicators and requests of libfanin.", -1, functions, NULL, NULL, NULL,
    NULL,
};

static PyTypeObject *add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);

    if (type && PyModule_AddObjectRef(module, name, type))
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC PyInit__binding(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    binding_request_type = add_type(module, "Request", &request_spec);
    binding_communicator_type = add_type(module, "Communicator", communicator_spec(collective_methods));
    if (!binding_request_type || !binding_communicator_type) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
