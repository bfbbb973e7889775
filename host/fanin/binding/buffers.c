/* Python objects as memory: the buffer protocol, types of elements, new arrays. */
#include "binding.h"

#include <string.h>

/* Types by the formats of their elements (PEP 3118): a letter, after a Z for complex numbers. */
static const struct {
    const char *letters;
    Py_ssize_t bytes;
    uint32_t dtype;
    int is_complex;
} formats[] = {
    {"bhilq", 1, FANIN_DTYPE_I8, 0}, {"bhilq", 2, FANIN_DTYPE_I16, 0}, {"bhilq", 4, FANIN_DTYPE_I32, 0},
    {"bhilq", 8, FANIN_DTYPE_I64, 0}, {"BHILQ", 1, FANIN_DTYPE_U8, 0}, {"BHILQ", 2, FANIN_DTYPE_U16, 0},
    {"BHILQ", 4, FANIN_DTYPE_U32, 0}, {"BHILQ", 8, FANIN_DTYPE_U64, 0}, {"?", 1, FANIN_DTYPE_BOOL, 0},
    {"e", 2, FANIN_DTYPE_F16, 0}, {"f", 4, FANIN_DTYPE_F32, 0}, {"d", 8, FANIN_DTYPE_F64, 0},
    {"f", 8, FANIN_DTYPE_C64, 1}, {"d", 16, FANIN_DTYPE_C128, 1},
};

/* A format with a byte order is not plain, even if that is the native one. */
static uint32_t dtype_of_buffer(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";
    int is_complex = *format == 'Z';

    format += is_complex;
    for (size_t i = 0; format[0] && !format[1] && i < sizeof formats / sizeof *formats; i++)
        if (formats[i].is_complex == is_complex && formats[i].bytes == view->itemsize &&
            strchr(formats[i].letters, format[0]))
            return formats[i].dtype;
    return FANIN_DTYPE_NONE;
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

PyObject *new_array(uint32_t dtype, const struct extent *extent, Py_buffer *view)
{
    int has_first = extent->first != NO_LENGTH;
    PyObject *lengths = PyTuple_New(has_first + extent->count), *array = NULL;

    for (int i = 0; lengths && i < has_first + extent->count; i++)
        if (PyTuple_SetItem(lengths, i,
                            PyLong_FromSsize_t(i < has_first ? extent->first : extent->others[i - has_first])))
            Py_CLEAR(lengths);
    if (lengths)
        array = PyObject_CallFunctionObjArgs(binding_empty, lengths, binding_dtype_list[dtype], NULL);
    Py_XDECREF(lengths);
    if (array && PyObject_GetBuffer(array, view, PyBUF_WRITABLE)) {
        view->obj = NULL;
        Py_CLEAR(array);
    }
    return array;
}

void release_memory(struct memory *memory)
{
    PyBuffer_Release(&memory->source);
    PyBuffer_Release(&memory->destination);
}
