#include "binding.h"

enum { MAX_DTYPES = 32 };

PyObject *binding_empty, *binding_operations;
PyObject *binding_dtype_list[MAX_DTYPES];
uint32_t binding_dtype_count;
PyTypeObject *binding_array_type;

PyObject *configure(PyObject *module, PyObject *arguments)
{
    PyObject *array_type, *empty, *dtypes, *operations;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!OO!O!", &PyType_Type, &array_type, &empty, &PyTuple_Type, &dtypes, &PyDict_Type,
                          &operations))
        return NULL;
    binding_array_type = (PyTypeObject *)Py_NewRef(array_type);
    binding_empty = Py_NewRef(empty);
    binding_operations = Py_NewRef(operations);
    for (Py_ssize_t i = 0; i < PyTuple_Size(dtypes) && i < MAX_DTYPES; i++)
        if (PyTuple_GetItem(dtypes, i) != Py_None) {
            binding_dtype_list[i] = Py_NewRef(PyTuple_GetItem(dtypes, i));
            binding_dtype_count = (uint32_t)i + 1;
        }
    Py_RETURN_NONE;
}
