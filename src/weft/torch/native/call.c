/* A call of an optimized module: looks whether compiled code is right for it, and runs that.
 *
 * Whatever is unusual gives `miss`, after which Python looks at the call and says what is wrong.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 199309L
#endif

#include "call.h"

#include <string.h>
#include <time.h>

#define MOST_ARGUMENTS 32
#define MOST_LEAVES 32
/* Runs shorter than this keep the interpreter's lock: other threads wait longer to get it. */
#define SHORT 20000
#define TIMED_RUNS 3

/* --- what the call is like ------------------------------------------------------------------- */

/* Whether a callable without arguments gives an object. */
static int gives(PyObject *callable, const PyObject *wanted)
{
    PyObject *const got = PyObject_Vectorcall(callable, NULL, 0, NULL);
    if (got == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DecRef(got);
    return got == wanted;
}

/* No tracing, no modes, no autocast, no transforms of functions. */
static int quiet(const weft_torch *torch)
{
    int64_t i;
    for (i = 0; i < torch->quiet_count; ++i) {
        if (!gives(torch->quiet[i], torch->quiet_results[i])) {
            return 0;
        }
    }
    return PyDict_GetItem(torch->forward_ad, torch->level_name) == torch->no_level;
}

static int64_t number(PyObject *callable)
{
    PyObject *const got = PyObject_Vectorcall(callable, NULL, 0, NULL);
    int64_t value;
    if (got == NULL) {
        PyErr_Clear();
        return -1;
    }
    value = PyLong_AsLong(got);
    Py_DecRef(got);
    return value;
}

static int is_tensor(const weft_torch *torch, const PyObject *object)
{
    return object->ob_type == torch->tensor_type || object->ob_type == torch->parameter_type;
}

/* Whether an attribute is false. */
static int is_no(const weft_torch *torch, PyObject *object, PyObject *name)
{
    PyObject *const got = PyObject_GetAttr(object, name);
    if (got == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DecRef(got);
    return got == torch->no;
}

/* Zeros of both signs are equal and yet not the same. */
static int same_value(PyObject *given, PyObject *wanted)
{
    int same;
    if (given == wanted) {
        return 1;
    }
    if (given->ob_type != wanted->ob_type) {
        return 0;
    }
    if (given->ob_type == &PyFloat_Type) {
        const double values[2] = {PyFloat_AsDouble(given), PyFloat_AsDouble(wanted)};
        return memcmp(&values[0], &values[1], sizeof values[0]) == 0;
    }
    same = PyObject_RichCompareBool(given, wanted, Py_EQ);
    if (same < 0) {
        PyErr_Clear();
    }
    return same == 1;
}

static int same_layout(const weft_leaf *wanted, const DLTensor *given)
{
    int32_t i;
    if (given->device_type != kDLCPU || given->ndim != wanted->ndim || given->dtype.lanes != 1
        || given->dtype.code != wanted->code || given->dtype.bits != wanted->bits) {
        return 0;
    }
    for (i = 0; i < wanted->ndim; ++i) {
        if (given->shape[i] != wanted->shape[i]
            || (given->shape[i] != 1 && given->strides[i] != wanted->strides[i])) {
            return 0;
        }
    }
    return 1;
}

/* The arguments, looked at once for all signatures. */
typedef struct arguments {
    PyObject *const *leaves;
    int64_t count;
    int is_tensor[MOST_LEAVES];
    DLTensor views[MOST_LEAVES];
} arguments;

static int look(const weft_torch *torch, arguments *given)
{
    int64_t i;
    for (i = 0; i < given->count; ++i) {
        PyObject *const leaf = given->leaves[i];
        given->is_tensor[i] = is_tensor(torch, leaf);
        if (given->is_tensor[i]) {
            if (torch->api->dltensor_from_py_object_no_sync(leaf, &given->views[i]) != 0) {
                PyErr_Clear();
                return 0;
            }
        }
    }
    return 1;
}

static int fits(const weft_entry *entry, const arguments *given)
{
    int64_t i;
    if (entry->leaf_count != given->count) {
        return 0;
    }
    for (i = 0; i < given->count; ++i) {
        const weft_leaf *const leaf = &entry->leaves[i];
        if (given->is_tensor[i] ? leaf->value != NULL || !same_layout(leaf, &given->views[i])
                                : leaf->value == NULL || !same_value(given->leaves[i], leaf->value)) {
            return 0;
        }
    }
    return 1;
}

/* Whether the elements are what lies in memory: not where a negation is still to be done. */
static int plain(const weft_torch *torch, const weft_entry *entry, const arguments *given)
{
    int64_t i;
    for (i = 0; i < given->count; ++i) {
        if (given->is_tensor[i] && entry->leaves[i].floating) {
            PyObject *const got
                = PyObject_Vectorcall(torch->is_neg, &given->leaves[i], 1, NULL);
            if (got == NULL) {
                PyErr_Clear();
                return 0;
            }
            Py_DecRef(got);
            if (got != torch->no) {
                return 0;
            }
        }
    }
    return 1;
}

static int without_gradients(const weft_call *call, const arguments *given)
{
    const weft_torch *const torch = call->torch;
    int64_t i;
    if (gives(torch->is_grad_enabled, torch->no)) {
        return 1;
    }
    for (i = 0; i < given->count; ++i) {
        if (given->is_tensor[i] && !is_no(torch, given->leaves[i], torch->requires_grad)) {
            return 0;
        }
    }
    for (i = 0; i < call->watch->weight_count; ++i) {
        if (!is_no(torch, call->watch->weights[i].tensor, torch->requires_grad)) {
            return 0;
        }
    }
    return 1;
}

/* --- the run --------------------------------------------------------------------------------- */

/* Calls a function with so many pointers. */
static int run(void *function, void *const *a, int64_t count)
{
    switch (count) {
#include "cases.h"
    default:
        return -1;
    }
}

/* Runs on PyTorch's threads where they are at hand. */
static int run_in_team(const weft_entry *entry, void *const *values, int64_t count)
{
    int code;
    if (entry->begin == NULL) {
        return run(entry->function, values, count);
    }
    entry->begin((int)entry->team);
    code = run(entry->function, values, count);
    entry->end();
    return code;
}

static int64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Runs with or without the interpreter's lock, as long as the first runs took. */
static int run_timed(weft_entry *entry, void *const *values, int64_t count)
{
    void *state;
    int64_t start;
    int64_t passed;
    int code;
    if (entry->runs >= TIMED_RUNS && entry->nanoseconds < SHORT) {
        return run_in_team(entry, values, count);
    }
    state = PyEval_SaveThread();
    start = entry->runs < TIMED_RUNS ? now() : 0;
    code = run_in_team(entry, values, count);
    passed = start != 0 ? now() - start : 0;
    PyEval_RestoreThread(state);
    if (start != 0) {
        if (entry->runs == 0 || passed < entry->nanoseconds) {
            entry->nanoseconds = passed;
        }
        ++entry->runs;
    }
    return code;
}

/* Scratch memory for one call. */
static void *borrow(weft_entry *entry)
{
    PyObject *made;
    void *arena;
    if (entry->arena_count > 0) {
        return entry->arenas[--entry->arena_count];
    }
    made = PyObject_Vectorcall(entry->new_arena, NULL, 0, NULL);
    if (made == NULL) {
        return NULL;
    }
    arena = PyLong_AsVoidPtr(made);
    Py_DecRef(made);
    return arena;
}

static void give_back(weft_entry *entry, void *arena)
{
    if (entry->arena_count < entry->arena_most) {
        entry->arenas[entry->arena_count++] = arena;
    }
}

static PyObject *results(const weft_entry *entry, PyObject *const *outputs)
{
    PyObject *tuple;
    PyObject *made;
    int64_t i;
    if (entry->unflatten == NULL) {
        made = entry->gives[0] >= 0 ? outputs[entry->gives[0]] : entry->constants[0];
        Py_IncRef(made);
        return made;
    }
    tuple = PyTuple_New(entry->give_count);
    if (tuple == NULL) {
        return NULL;
    }
    for (i = 0; i < entry->give_count; ++i) {
        PyObject *const value
            = entry->gives[i] >= 0 ? outputs[entry->gives[i]] : entry->constants[i];
        Py_IncRef(value);
        (void)PyTuple_SetItem(tuple, i, value);
    }
    made = PyObject_Vectorcall(entry->unflatten, &tuple, 1, NULL);
    Py_DecRef(tuple);
    return made;
}

/* New tensors, and their addresses; whether there are all of them. */
static int make_outputs(const weft_torch *torch, const weft_entry *entry, PyObject **outputs,
                        void **addresses)
{
    int64_t i;
    for (i = 0; i < entry->output_count; ++i) {
        PyObject *const *const words = &entry->outputs[i * torch->output_words];
        DLTensor view;
        outputs[i]
            = PyObject_Vectorcall(torch->new_output, words, (size_t)torch->output_words, NULL);
        if (outputs[i] == NULL
            || torch->api->dltensor_from_py_object_no_sync(outputs[i], &view) != 0) {
            return 0;
        }
        addresses[i] = (char *)view.data + view.byte_offset;
    }
    return 1;
}

/* Runs on scratch memory; -1 with an exception where there is none. */
static int run_on(weft_entry *entry, void **values, int64_t count)
{
    PyObject *const memory = entry->memory;
    void *const arena = entry->arena_bytes > 0 ? borrow(entry) : NULL;
    int64_t i;
    int code;
    if (entry->arena_bytes > 0 && arena == NULL) {
        return -1;
    }
    values[count++] = arena;
    for (i = 0; i < entry->fixed_count; ++i) {
        values[count++] = entry->fixed[i];
    }
    /* Other weights may be loaded while other threads have the lock. */
    Py_IncRef(memory);
    code = run_timed(entry, values, count);
    Py_DecRef(memory);
    if (arena != NULL) {
        give_back(entry, arena);
    }
    return code;
}

#define OUTSIDE(type)                                                                              \
    {                                                                                              \
        const type *const all = data;                                                              \
        for (i = 0; i < count; ++i) {                                                              \
            outside |= all[i] < bounds->least || all[i] > bounds->most;                            \
        }                                                                                          \
        break;                                                                                     \
    }

/* Whether all elements of a leaf, which are signed and lie together, are within bounds. */
static int is_inside(const weft_leaf *leaf, const weft_bounds *bounds, const void *data)
{
    int outside = 0;
    int64_t count = 1;
    int64_t i;
    for (i = 0; i < leaf->ndim; ++i) {
        count *= leaf->shape[i];
    }
    switch (leaf->bits) {
    case 8:
        OUTSIDE(int8_t)
    case 16:
        OUTSIDE(int16_t)
    case 32:
        OUTSIDE(int32_t)
    default:
        OUTSIDE(int64_t)
    }
    return !outside;
}

static int are_inside(const weft_entry *entry, const arguments *given)
{
    int64_t i;
    for (i = 0; i < entry->bound_count; ++i) {
        const weft_bounds *const bounds = &entry->bounds[i];
        const DLTensor *const view = &given->views[bounds->leaf];
        const char *const data = (const char *)view->data + view->byte_offset;
        if (!is_inside(&entry->leaves[bounds->leaf], bounds, data)) {
            return 0;
        }
    }
    return 1;
}

/* A null pointer with an exception, or a null pointer without one where the code refuses. */
static PyObject *run_entry(const weft_torch *torch, weft_entry *entry, const arguments *given)
{
    void *values[MOST_ARGUMENTS];
    PyObject *outputs[MOST_ARGUMENTS] = {NULL};
    PyObject *result = NULL;
    int64_t count = 0;
    int64_t i;
    if (!are_inside(entry, given)) {
        return NULL;
    }
    for (i = 0; i < entry->read_count; ++i) {
        const DLTensor *const view = &given->views[entry->reads[i]];
        values[count++] = (char *)view->data + view->byte_offset;
    }
    if (make_outputs(torch, entry, outputs, &values[count])
        && run_on(entry, values, count + entry->output_count) == 0) {
        result = results(entry, outputs);
    }
    for (i = 0; i < entry->output_count && outputs[i] != NULL; ++i) {
        Py_DecRef(outputs[i]);
    }
    return result;
}

static weft_entry *find(const weft_call *call, const arguments *given)
{
    const int64_t threads = call->threads != 0 ? call->threads : number(call->torch->threads);
    int64_t i;
    for (i = 0; i < call->entry_count; ++i) {
        weft_entry *const entry = call->entries[i];
        if (entry->threads == threads && fits(entry, given)) {
            return entry->ready ? entry : NULL;
        }
    }
    return NULL;
}

/* --- for Python ------------------------------------------------------------------------------ */

static PyObject *answer(PyObject *object)
{
    Py_IncRef(object);
    return object;
}

static PyObject *called(PyObject *self, PyObject *const *leaves, Py_ssize_t count)
{
    const weft_call *const call = (const weft_call *)PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    const weft_torch *const torch = call->torch;
    arguments given;
    weft_entry *entry = NULL;
    PyObject *result;
    given.leaves = leaves;
    given.count = count;
    if (count <= MOST_LEAVES && quiet(torch) && look(torch, &given)) {
        entry = find(call, &given);
    }
    if (entry == NULL || !plain(torch, entry, &given) || !without_gradients(call, &given)
        || !weft_same(call->watch)) {
        return answer(torch->miss);
    }
    if (entry->instead != NULL) {
        return PyObject_Vectorcall(entry->instead, leaves, (size_t)count, NULL);
    }
    result = run_entry(torch, entry, &given);
    return result != NULL || PyErr_Occurred() != NULL ? result : answer(torch->miss);
}

/* The call of a module as PyTorch does it: only where it would call nothing but `forward`. */
static PyObject *module_called(PyObject *self, PyObject *const *leaves, Py_ssize_t count)
{
    const weft_call *const call = (const weft_call *)PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    int64_t i;
    for (i = 0; i < call->hook_count; ++i) {
        if (PyDict_Size(call->hooks[i]) != 0) {
            return answer(call->torch->miss);
        }
    }
    return called(self, leaves, count);
}

static PyObject *part_called(PyObject *self, PyObject *const *leaves, Py_ssize_t count)
{
    const weft_part *const part = (const weft_part *)PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    const weft_torch *const torch = part->torch;
    arguments given;
    PyObject *result;
    given.leaves = leaves;
    given.count = count;
    if (count > MOST_LEAVES || !look(torch, &given) || !fits(part->entry, &given)
        || !part->entry->ready || !plain(torch, part->entry, &given)) {
        return answer(torch->miss);
    }
    result = run_entry(torch, part->entry, &given);
    return result != NULL || PyErr_Occurred() != NULL ? result : answer(torch->miss);
}

static PyObject *compared(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    weft_watch *const watch = (weft_watch *)PyLong_AsVoidPtr(PyTuple_GetItem(self, 0));
    (void)arguments;
    (void)count;
    return answer(weft_same(watch) ? watch->torch->yes : watch->torch->no);
}

static PyMethodDef call_method = {"call", called, METH_FASTCALL, NULL};
static PyMethodDef module_method = {"module", module_called, METH_FASTCALL, NULL};
static PyMethodDef part_method = {"part", part_called, METH_FASTCALL, NULL};
static PyMethodDef same_method = {"same", compared, METH_FASTCALL, NULL};

/* Callables over a tuple that begins with the address of a weft_call, weft_part or weft_watch,
 * and holds all that it refers to. */
PyObject *weft_callable(PyObject *self)
{
    return PyCFunction_NewEx(&call_method, self, NULL);
}

PyObject *weft_module_callable(PyObject *self)
{
    return PyCFunction_NewEx(&module_method, self, NULL);
}

PyObject *weft_part_callable(PyObject *self)
{
    return PyCFunction_NewEx(&part_method, self, NULL);
}

PyObject *weft_comparison(PyObject *self)
{
    return PyCFunction_NewEx(&same_method, self, NULL);
}
