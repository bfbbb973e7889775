/* The module fanin._binding. */
#include "binding.h"

PyObject *binding_empty, *binding_dtypes, *binding_operations;
PyTypeObject *binding_request_type;

static PyObject *configure(PyObject *module, PyObject *arguments)
{
    PyObject *empty, *dtypes, *operations;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO!O!", &empty, &PyTuple_Type, &dtypes, &PyDict_Type, &operations))
        return NULL;
    binding_empty = Py_NewRef(empty);
    binding_dtypes = Py_NewRef(dtypes);
    binding_operations = Py_NewRef(operations);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_VARARGS,
     "configure(empty, dtypes, operations): numpy.empty, the dtype of each type code, and the code of each operation."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "fanin._binding", "Communicators and requests of libfanin.", -1, functions, NULL, NULL, NULL,
    NULL,
};

static PyObject *add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);

    if (type && PyModule_AddObjectRef(module, name, type))
        Py_CLEAR(type);
    return type;
}

PyMODINIT_FUNC PyInit__binding(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return NULL;
    binding_request_type = (PyTypeObject *)add_type(module, "Request", &request_spec);
    if (!binding_request_type || !add_type(module, "Communicator", communicator_spec())) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
