#include "binding.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>
#include <string.h>

/* Types by format (PEP 3118): a letter, after a Z for complex numbers. */
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

/* A format with a byte order, even the native one, is not plain. */
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

/* numpy has one dtype object for each native type. */
static uint32_t code_of(const PyArray_Descr *dtype)
{
    for (uint32_t code = 1; code < binding_dtype_count; code++)
        if (binding_dtype_list[code] == (const PyObject *)dtype)
            return code;
    return FANIN_DTYPE_NONE;
}

/* A numpy array, by numpy's accessors, since its buffer export allocates, which is the slowest part of a short call.
 * PyBuffer_Release ends this view as well. */
static uint32_t view_array(PyObject *object, Py_buffer *view, int writable)
{
    const PyArrayObject *array = (const PyArrayObject *)object;
    uint32_t dtype = code_of(PyArray_DESCR(array));

    if (!dtype || !PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS | (writable ? NPY_ARRAY_WRITEABLE : 0)))
        return FANIN_DTYPE_NONE;
    *view = (Py_buffer){.buf = PyArray_DATA((PyArrayObject *)object), .obj = Py_NewRef(object),
                        .len = fanin_dtype_bytes(dtype), .itemsize = fanin_dtype_bytes(dtype),
                        .readonly = !writable, .ndim = PyArray_NDIM(array), .shape = PyArray_DIMS(array)};
    for (int i = 0; i < view->ndim; i++)
        view->len *= view->shape[i];
    return dtype;
}

uint32_t view_plain(PyObject *object, Py_buffer *view, int writable)
{
    int flags = PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    uint32_t dtype = Py_IS_TYPE(object, binding_array_type) ? view_array(object, view, writable) : FANIN_DTYPE_NONE;

    if (dtype)
        return dtype;
    if (PyObject_CheckBuffer(object) && !PyObject_GetBuffer(object, view, flags))
        return dtype_of_buffer(view);
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
