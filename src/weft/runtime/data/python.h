/* What is used of CPython's stable ABI (3.11 upwards, not free-threaded), declared here because
 * its headers may not be installed. */
#ifndef WEFT_PYTHON_H
#define WEFT_PYTHON_H

#include <stddef.h>
#include <stdint.h>

typedef ptrdiff_t Py_ssize_t;

typedef struct PyObject {
    Py_ssize_t ob_refcnt;
    void *ob_type;
} PyObject;

typedef PyObject *(*PyCFunctionFast)(PyObject *self, PyObject *const *arguments, Py_ssize_t count);

typedef struct PyMethodDef {
    const char *name;
    PyCFunctionFast function;
    int flags;
    const char *doc;
} PyMethodDef;

#define METH_FASTCALL 0x80

extern PyObject *PyCFunction_NewEx(PyMethodDef *method, PyObject *self, PyObject *module);
extern void *PyLong_AsVoidPtr(PyObject *number);
extern long PyLong_AsLong(PyObject *number);
extern PyObject *PyTuple_New(Py_ssize_t size);
extern PyObject *PyTuple_GetItem(PyObject *tuple, Py_ssize_t place);
extern int PyTuple_SetItem(PyObject *tuple, Py_ssize_t place, PyObject *stolen);
extern Py_ssize_t PyTuple_Size(PyObject *tuple);
extern PyObject *PyList_GetItem(PyObject *list, Py_ssize_t place);
extern Py_ssize_t PyList_Size(PyObject *list);
extern PyObject *PyList_AsTuple(PyObject *list);
extern int PyDict_Next(PyObject *dict, Py_ssize_t *place, PyObject **key, PyObject **value);
extern Py_ssize_t PyDict_Size(PyObject *dict);
extern PyObject *PyDict_GetItem(PyObject *dict, PyObject *key);
extern PyObject *PyObject_GetAttr(PyObject *object, PyObject *name);
extern double PyFloat_AsDouble(PyObject *number);
extern char PyFloat_Type; /* only its address is used */
extern int PyObject_RichCompareBool(PyObject *left, PyObject *right, int comparison);
extern PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *arguments, size_t count,
                                     PyObject *names);
extern void PyErr_Clear(void);
extern PyObject *PyErr_Occurred(void);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *state);
extern void Py_IncRef(PyObject *object);
extern void Py_DecRef(PyObject *object);

#define Py_EQ 2

#endif
