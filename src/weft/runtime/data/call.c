/* A call of a network with arrays of NumPy: checks them, and runs on their memory.
 *
 * Whatever does not fit gives None, after which Python looks at the call and says what is wrong.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 199309L
#endif

#include "python.h"

#include <time.h>

#define MOST_ARGUMENTS 32
/* Runs shorter than this keep the interpreter's lock: other threads wait so much longer for it. */
#define SHORT 20000 /* ns */
/* One of so many runs is timed: what a run takes may depend on its inputs. */
#define RUNS_PER_TIMING 64

/* NumPy's PyArrayObject_fields, which its inlined functions make part of its ABI. */
typedef struct array {
    PyObject head;
    char *data;
    int ndim;
    const Py_ssize_t *shape;
    const Py_ssize_t *strides;
    PyObject *base;
    PyObject *dtype;
    int flags;
} array;

#define PACKED 0x1
#define WRITEABLE 0x400

/* An input or output. */
typedef struct weft_port {
    PyObject *dtype;
    PyObject *shape;         /* as a tuple, ... */
    const Py_ssize_t *sizes; /* ... and as numbers */
    int64_t ndim;
    int64_t bytes;
} weft_port;

/* runtime/calls.py has the same. */
typedef struct weft_net {
    void *array_type;
    void *tuple_type;
    void *list_type;
    PyObject *empty; /* numpy.empty */
    PyObject *miss;  /* None */
    const weft_port *inputs;
    int64_t input_count;
    const weft_port *outputs;
    int64_t output_count;
    int64_t state_bytes; /* of the state, the last of the scratch memory; 0 without one */
    void *function;
    int64_t runs;
    int64_t nanoseconds; /* of the last run that was timed */
} weft_net;

/* Addresses for the run function. */
typedef struct values {
    void *at[MOST_ARGUMENTS];
    int64_t count;
} values;

/* --- what is given --------------------------------------------------------------------------- */

static int fits(const weft_net *net, const weft_port *port, const PyObject *given, int flags)
{
    const array *const found = (const array *)given;
    int64_t i;
    if (given->ob_type != net->array_type || found->dtype != port->dtype
        || found->ndim != port->ndim || (found->flags & flags) != flags) {
        return 0;
    }
    for (i = 0; i < port->ndim; ++i) {
        if (found->shape[i] != port->sizes[i]) {
            return 0;
        }
    }
    return 1;
}

/* The addresses of a tuple's arrays; whether all fit. */
static int take(const weft_net *net, const weft_port *ports, int64_t count, PyObject *given,
                int flags, values *into)
{
    int64_t i;
    if (PyTuple_Size(given) != count) {
        return 0;
    }
    for (i = 0; i < count; ++i) {
        PyObject *const each = PyTuple_GetItem(given, i);
        if (!fits(net, &ports[i], each, flags)) {
            return 0;
        }
        into->at[into->count++] = ((const array *)each)->data;
    }
    return 1;
}

static const weft_port *port_at(const weft_net *net, int64_t place)
{
    return place < net->input_count ? &net->inputs[place]
                                    : &net->outputs[place - net->input_count];
}

/* Whether an output shares memory with an input or another output. */
static int overlap(const weft_net *net, const values *given)
{
    int64_t i;
    int64_t j;
    for (i = net->input_count; i < given->count; ++i) {
        const uintptr_t start = (uintptr_t)given->at[i];
        const uintptr_t end = start + (uintptr_t)port_at(net, i)->bytes;
        for (j = 0; j < i; ++j) {
            const uintptr_t other = (uintptr_t)given->at[j];
            if (other < end && start < other + (uintptr_t)port_at(net, j)->bytes) {
                return 1;
            }
        }
    }
    return 0;
}

/* Whether an input or output shares memory with the state, whose address comes last. */
static int overlaps_state(const weft_net *net, const values *given)
{
    const uintptr_t state = (uintptr_t)given->at[given->count - 1];
    int64_t i;
    for (i = 0; i < net->input_count + net->output_count; ++i) {
        const uintptr_t start = (uintptr_t)given->at[i];
        if (start < state + (uintptr_t)net->state_bytes
            && state < start + (uintptr_t)port_at(net, i)->bytes) {
            return 1;
        }
    }
    return 0;
}

/* --- outputs --------------------------------------------------------------------------------- */

/* A tuple of what is written into, or a null pointer without an exception. */
static PyObject *given_outputs(const weft_net *net, PyObject *out, values *into)
{
    PyObject *outputs;
    if (out->ob_type == net->tuple_type) {
        outputs = out;
        Py_IncRef(outputs);
    } else if (out->ob_type == net->list_type) {
        outputs = PyList_AsTuple(out);
        if (outputs == NULL) {
            PyErr_Clear();
            return NULL;
        }
    } else {
        return NULL;
    }
    if (!take(net, net->outputs, net->output_count, outputs, PACKED | WRITEABLE, into)
        || overlap(net, into)) {
        Py_DecRef(outputs);
        return NULL;
    }
    return outputs;
}

/* A tuple of new arrays, or a null pointer with an exception. */
static PyObject *new_outputs(const weft_net *net, values *into)
{
    PyObject *const outputs = PyTuple_New(net->output_count);
    int64_t i;
    for (i = 0; outputs != NULL && i < net->output_count; ++i) {
        PyObject *const wanted[2] = {net->outputs[i].shape, net->outputs[i].dtype};
        PyObject *const made = PyObject_Vectorcall(net->empty, wanted, 2, NULL);
        if (made == NULL) {
            Py_DecRef(outputs);
            return NULL;
        }
        into->at[into->count++] = ((const array *)made)->data;
        (void)PyTuple_SetItem(outputs, i, made);
    }
    return outputs;
}

/* --- the run --------------------------------------------------------------------------------- */

static int run(void *function, void *const *a, int64_t count)
{
    switch (count) {
#include "cases.h"
    default:
        return -1;
    }
}

static int64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Runs, without the interpreter's lock unless the run that was timed last is short. */
static int run_timed(weft_net *net, const values *given)
{
    const int timed = net->runs++ % RUNS_PER_TIMING == 0;
    void *state;
    int64_t passed = 0;
    int code;
    if (!timed && net->nanoseconds < SHORT) {
        return run(net->function, given->at, given->count);
    }
    state = PyEval_SaveThread();
    if (timed) {
        passed = -now();
    }
    code = run(net->function, given->at, given->count);
    if (timed) {
        passed += now();
    }
    PyEval_RestoreThread(state);
    if (timed) {
        net->nanoseconds = passed;
    }
    return code;
}

static int take_addresses(PyObject *(*item)(PyObject *, Py_ssize_t), PyObject *given,
                          Py_ssize_t count, values *into)
{
    Py_ssize_t i;
    if (count < 0 || into->count + count > MOST_ARGUMENTS) {
        return 0;
    }
    for (i = 0; i < count; ++i) {
        into->at[into->count++] = PyLong_AsVoidPtr(item(given, i));
    }
    return 1;
}

/* --- for Python ------------------------------------------------------------------------------ */

static PyObject *answer(PyObject *object)
{
    Py_IncRef(object);
    return object;
}

/* call(inputs, out, scratch, fixed): the outputs, or None.  The caller holds all of it. */
static PyObject *called(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    weft_net *const net = (weft_net *)PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    PyObject *outputs;
    values given;
    given.count = 0;
    if (count != 4 || !take(net, net->inputs, net->input_count, arguments[0], PACKED, &given)) {
        return answer(net->miss);
    }
    if (arguments[1] != net->miss) {
        outputs = given_outputs(net, arguments[1], &given);
        if (outputs == NULL) {
            return answer(net->miss);
        }
    } else {
        outputs = new_outputs(net, &given);
        if (outputs == NULL) {
            return NULL;
        }
    }
    if (!take_addresses(PyTuple_GetItem, arguments[2], PyTuple_Size(arguments[2]), &given)
        || (net->state_bytes > 0 && overlaps_state(net, &given))
        || !take_addresses(PyList_GetItem, arguments[3], PyList_Size(arguments[3]), &given)
        || run_timed(net, &given) != 0) {
        Py_DecRef(outputs);
        return answer(net->miss);
    }
    return outputs;
}

static PyMethodDef call_method = {"call", called, METH_FASTCALL, NULL};

/* A callable over a tuple that begins with the address of a weft_net, and holds all that it
 * refers to. */
PyObject *weft_callable(PyObject *self)
{
    return PyCFunction_NewEx(&call_method, self, NULL);
}
