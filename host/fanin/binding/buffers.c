/* Python objects as memory: the buffer protocol, types of elements, new arrays. */
#include "binding.h"

#include <string.h>

static uint32_t signed_integer(Py_ssize_t bytes)
{
    switch (bytes) {
    case 1: return FANIN_DTYPE_I8;
    case 2: return FANIN_DTYPE_I16;
    case 4: return FANIN_DTYPE_I32;
    case 8: return FANIN_DTYPE_I64;
    default: return FANIN_DTYPE_NONE;
    }
}

static uint32_t unsigned_integer(Py_ssize_t bytes)
{
    switch (bytes) {
    case 1: return FANIN_DTYPE_U8;
    case 2: return FANIN_DTYPE_U16;
    case 4: return FANIN_DTYPE_U32;
    case 8: return FANIN_DTYPE_U64;
    default: return FANIN_DTYPE_NONE;
    }
}

/* Formats: PEP 3118. A format with a byte order is not plain, even if that is the native one. */
uint32_t dtype_of_buffer(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";

    if (format[0] == 'Z' && format[1] && !format[2])
        return format[1] == 'f' ? FANIN_DTYPE_C64 : format[1] == 'd' ? FANIN_DTYPE_C128 : FANIN_DTYPE_NONE;
    if (!format[0] || format[1])
        return FANIN_DTYPE_NONE;
    switch (format[0]) {
    case '?': return view->itemsize == 1 ? FANIN_DTYPE_BOOL : FANIN_DTYPE_NONE;
    case 'b': case 'h': case 'i': case 'l': case 'q': return signed_integer(view->itemsize);
    case 'B': case 'H': case 'I': case 'L': case 'Q': return unsigned_integer(view->itemsize);
    case 'e': return FANIN_DTYPE_F16;
    case 'f': return FANIN_DTYPE_F32;
    case 'd': return FANIN_DTYPE_F64;
    default: return FANIN_DTYPE_NONE;
    }
}

int view_plain(PyObject *object, Py_buffer *view, int writable)
{
    if (!PyObject_CheckBuffer(object))
        return 0;
    if (!PyObject_GetBuffer(object, view, PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)))
        return 1;
    PyErr_Clear();
    view->obj = NULL;
    return 0;
}

PyObject *new_array(uint32_t dtype, const Py_ssize_t *shape, int dimensions, Py_ssize_t rows)
{
    int first = rows > 0;
    PyObject *lengths = PyTuple_New(dimensions + first), *array;

    if (!lengths)
        return NULL;
    for (int i = 0; i < dimensions + first; i++)
        if (PyTuple_SetItem(lengths, i, PyLong_FromSsize_t(i < first ? rows : shape[i - first]))) {
            Py_DECREF(lengths);
            return NULL;
        }
    array = PyObject_CallFunctionObjArgs(binding_empty, lengths, PyTuple_GetItem(binding_dtypes, dtype), NULL);
    Py_DECREF(lengths);
    return array;
}

void release_memory(struct memory *memory)
{
    PyBuffer_Release(&memory->source);
    PyBuffer_Release(&memory->destination);
}
