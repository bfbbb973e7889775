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

/* Code of the elements of a buffer by its format (PEP 3118). A format with a byte order is not plain, even if that is the native one. */
static uint32_t dtype_of_buffer(const Py_buffer *view)
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

/* Type of the elements of a numpy array. numpy has one object for each native type, so its identity tells the
 * type. That is faster than the format of a buffer, which numpy writes anew each time. */
static uint32_t dtype_of_array(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, binding_dtype_name);
    uint32_t code = 0;

    for (uint32_t i = 0; dtype && !code && i < binding_dtype_count; i++)
        if (binding_dtype_list[i] == dtype)
            code = i;
    Py_XDECREF(dtype);
    return code;
}

uint32_t view_plain(PyObject *object, Py_buffer *view, int writable)
{
    int flags = PyBUF_ND | (writable ? PyBUF_WRITABLE : 0);
    uint32_t dtype = Py_IS_TYPE(object, binding_array_type) ? dtype_of_array(object) : FANIN_DTYPE_NONE;

    if (PyObject_CheckBuffer(object) && !PyObject_GetBuffer(object, view, dtype ? flags : flags | PyBUF_FORMAT))
        return dtype ? dtype : dtype_of_buffer(view);
    PyErr_Clear();
    view->obj = NULL;
    return FANIN_DTYPE_NONE;
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
    array = PyObject_CallFunctionObjArgs(binding_empty, lengths, binding_dtype_list[dtype], NULL);
    Py_DECREF(lengths);
    return array;
}

void release_memory(struct memory *memory)
{
    PyBuffer_Release(&memory->source);
    PyBuffer_Release(&memory->destination);
}
