/* Whether weights, and the modules that hold them, are still what compiled code was made for.
 *
 * Where the places of things in PyTorch's objects are known, a weight is checked by a few loads;
 * else PyTorch is asked for its version and address.  Writes that PyTorch does not count (into
 * `.data`, through NumPy, by fused optimizers) show in a few samples of the elements only.
 */
#include "call.h"

#include <string.h>

static uint64_t word(const void *start, int64_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)start + offset, sizeof value);
    return value;
}

static char *address(const void *start, int64_t offset)
{
    char *value;
    memcpy(&value, (const char *)start + offset, sizeof value);
    return value;
}

/* --- weights --------------------------------------------------------------------------------- */

static uint32_t version_of(const weft_offsets *at, const char *counter)
{
    uint32_t version = 0;
    if (counter != NULL) {
        memcpy(&version, counter + at->version, sizeof version);
    }
    return version;
}

static uint32_t sample(const weft_weight *weight, int i)
{
    uint32_t value = 0;
    memcpy(&value, weight->sampled[i], (size_t)weight->sample_bytes);
    return value;
}

static uint32_t differs(const weft_weight *weight, int i)
{
    uint32_t value;
    memcpy(&value, weight->sampled[i], sizeof value);
    return value ^ weight->samples[i];
}

static int same_samples(const weft_weight *weight)
{
    uint32_t differ = 0;
    int i;
    if (weight->sample_bytes == sizeof differ) {
        return (differs(weight, 0) | differs(weight, 1) | differs(weight, 2) | differs(weight, 3))
               == 0;
    }
    for (i = 0; weight->sample_bytes != 0 && i < WEFT_SAMPLES; ++i) {
        differ |= sample(weight, i) ^ weight->samples[i];
    }
    return differ == 0;
}

/* What PyTorch tells of a weight. */
typedef struct told {
    const char *data;
    uint32_t version;
    uint64_t layout[WEFT_LAYOUT];
} told;

/* Sizes and strides, those of more than WEFT_DIMS dimensions mixed. */
static void tell_layout(const DLTensor *view, uint64_t *layout)
{
    int32_t i;
    memset(layout, 0, WEFT_LAYOUT * sizeof *layout);
    layout[0] = (uint64_t)view->ndim;
    for (i = 0; i < view->ndim; ++i) {
        uint64_t *const size = &layout[1 + i % WEFT_DIMS];
        *size = 31 * *size + (uint64_t)view->shape[i];
        size[WEFT_DIMS] = 31 * size[WEFT_DIMS] + (uint64_t)view->strides[i];
    }
    layout[WEFT_LAYOUT - 1] = (uint64_t)view->dtype.code << 8 | view->dtype.bits;
}

/* Whether complex numbers are to be read conjugated, which is no matter of their memory. */
static int conjugated(const weft_torch *torch, PyObject *tensor, const DLTensor *view)
{
    PyObject *found;
    if (view->dtype.code != kDLComplex) {
        return 0;
    }
    found = PyObject_Vectorcall(torch->is_conj, &tensor, 1, NULL);
    if (found == NULL) {
        PyErr_Clear();
        return 1;
    }
    Py_DecRef(found);
    return found != torch->no;
}

/* Asks PyTorch; 0 if it refuses. */
static int ask(const weft_torch *torch, const weft_weight *weight, told *found)
{
    DLTensor view;
    PyObject *number;
    if (torch->api->dltensor_from_py_object_no_sync(weight->tensor, &view) != 0) {
        PyErr_Clear();
        return 0;
    }
    found->data = (const char *)view.data + view.byte_offset;
    tell_layout(&view, found->layout);
    found->layout[WEFT_LAYOUT - 1] |= (uint64_t)conjugated(torch, weight->tensor, &view) << 16;
    number = PyObject_GetAttr(weight->tensor, torch->version_name);
    if (number == NULL) { /* an inference tensor, which has none */
        PyErr_Clear();
        found->version = 0;
        return 1;
    }
    found->version = (uint32_t)PyLong_AsLong(number);
    Py_DecRef(number);
    return 1;
}

/* Whether four words from the i-th on are others. */
static uint64_t four(const weft_weight *weight, const char *layout, int i)
{
    return (word(layout, 8 * i) ^ weight->layout[i])
           | (word(layout, 8 * (i + 1)) ^ weight->layout[i + 1])
           | (word(layout, 8 * (i + 2)) ^ weight->layout[i + 2])
           | (word(layout, 8 * (i + 3)) ^ weight->layout[i + 3]);
}

static int same_layout(const weft_offsets *at, const weft_weight *weight)
{
    const char *const layout = weight->impl + at->layout;
    return (four(weight, layout, 0) | four(weight, layout, 4) | four(weight, layout, 8)
            | four(weight, layout, WEFT_LAYOUT - 4))
           == 0;
}

/* Each object is read only where what led to it is as it was, and so holds it. */
static int same_place(const weft_offsets *at, const weft_weight *weight)
{
    return address(weight->tensor, at->impl) == weight->impl
           && address(weight->impl, at->storage) == weight->storage
           && address(weight->impl, at->counter) == weight->counter
           && address(weight->storage, at->data) == weight->start
           && version_of(at, weight->counter) == weight->version && same_layout(at, weight);
}

static int same_as_told(const weft_torch *torch, const weft_weight *weight,
                        const weft_places *places)
{
    told found;
    return ask(torch, weight, &found) && found.data == places->data
           && found.version == weight->version
           && memcmp(found.layout, weight->layout, sizeof found.layout) == 0;
}

static int same_weight(const weft_torch *torch, const weft_weight *weight,
                       const weft_places *places)
{
    return (weight->calibrated ? same_place(&torch->at, weight)
                               : same_as_told(torch, weight, places))
           && same_samples(weight);
}

static void take_place(const weft_offsets *at, weft_weight *weight)
{
    weight->impl = address(weight->tensor, at->impl);
    weight->storage = address(weight->impl, at->storage);
    weight->start = address(weight->storage, at->data);
    weight->counter = address(weight->impl, at->counter);
    memcpy(weight->layout, weight->impl + at->layout, sizeof weight->layout);
}

static void take_weight(const weft_torch *torch, weft_weight *weight, weft_places *places)
{
    told found;
    int i;
    if (!ask(torch, weight, &found)) {
        weight->sample_bytes = 0;
        places->data = NULL;
        weight->calibrated = 0;
        return;
    }
    places->data = found.data;
    weight->version = found.version;
    memcpy(weight->layout, found.layout, sizeof found.layout);
    if (weight->calibrated) {
        take_place(&torch->at, weight);
    }
    for (i = 0; weight->sample_bytes != 0 && i < WEFT_SAMPLES; ++i) {
        weight->sampled[i] = places->data + places->bytes[i];
        weight->samples[i] = sample(weight, i);
    }
}

/* --- modules --------------------------------------------------------------------------------- */

static int same_items(const weft_dict *known)
{
    Py_ssize_t place = 0;
    PyObject *key;
    PyObject *value;
    int64_t i = 0;
    if (PyDict_Size(known->dict) != known->count) {
        return 0;
    }
    while (PyDict_Next(known->dict, &place, &key, &value)) {
        if (key != known->items[2 * i] || value != known->items[2 * i + 1]) {
            return 0;
        }
        ++i;
    }
    return 1;
}

static int same_dicts(const weft_watch *watch)
{
    const int64_t at = watch->torch->at.tag;
    const int64_t count = watch->dict_count;
    weft_dict *known;
    for (known = watch->dicts; known < watch->dicts + count; ++known) {
        if (at < 0 || word(known->dict, at) != known->tag) {
            if (!same_items(known)) {
                return 0;
            }
            if (at >= 0) {
                known->tag = word(known->dict, at);
            }
        }
    }
    return 1;
}

/* --- all of them ----------------------------------------------------------------------------- */

/* Notes how the weights are now. */
void weft_take(weft_watch *watch)
{
    int64_t i;
    for (i = 0; i < watch->weight_count; ++i) {
        take_weight(watch->torch, &watch->weights[i], &watch->places[i]);
    }
}

static int same_classes(const weft_watch *watch)
{
    int64_t i;
    for (i = 0; i < watch->class_count; ++i) {
        if (watch->classes[i].object->ob_type != watch->classes[i].type) {
            return 0;
        }
    }
    return 1;
}

static int same_weights(const weft_watch *watch)
{
    int64_t i;
    for (i = 0; i < watch->weight_count; ++i) {
        if (!same_weight(watch->torch, &watch->weights[i], &watch->places[i])) {
            return 0;
        }
    }
    return 1;
}

/* Whether nothing has changed. */
int weft_same(weft_watch *watch)
{
    return same_classes(watch) && same_dicts(watch) && same_weights(watch);
}
