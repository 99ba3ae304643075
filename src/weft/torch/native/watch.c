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

static uint64_t version_of(const weft_offsets *at, const char *impl)
{
    const char *const counter = address(impl, at->counter);
    uint32_t version = 0;
    if (counter != NULL) {
        memcpy(&version, counter + at->version, sizeof version);
    }
    return version;
}

static uint32_t sample(const weft_weight *weight, int i)
{
    uint32_t value = 0;
    if (weight->sample_bytes == 4) {
        memcpy(&value, weight->data + weight->places[i], 4);
    } else if (weight->sample_bytes > 0) {
        memcpy(&value, weight->data + weight->places[i], (size_t)weight->sample_bytes);
    }
    return value;
}

static int same_samples(const weft_weight *weight)
{
    uint32_t differ = 0;
    int i;
    for (i = 0; i < WEFT_SAMPLES; ++i) {
        differ |= sample(weight, i) ^ weight->samples[i];
    }
    return differ == 0;
}

/* The address and the version of a weight, as PyTorch tells them; 0 if it refuses. */
static int asked(const weft_torch *torch, const weft_weight *weight, const char **data,
                 uint64_t *version)
{
    DLTensor view;
    PyObject *number;
    if (torch->api->dltensor_from_py_object_no_sync(weight->tensor, &view) != 0) {
        PyErr_Clear();
        return 0;
    }
    *data = (const char *)view.data + view.byte_offset;
    number = PyObject_GetAttr(weight->tensor, torch->version_name);
    if (number == NULL) { /* an inference tensor, which has none */
        PyErr_Clear();
        *version = 0;
        return 1;
    }
    *version = (uint64_t)PyLong_AsLong(number);
    Py_DecRef(number);
    return 1;
}

/* The first element's address; what is compared of the TensorImpl covers the storage's offset. */
static int same_place(const weft_torch *torch, const weft_weight *weight)
{
    const weft_offsets *const at = &torch->at;
    const char *const impl = address(weight->tensor, at->impl);
    const size_t bytes = (size_t)(at->end - at->storage);
    return impl == weight->impl && memcmp(impl + at->storage, weight->layout, bytes) == 0
           && address(address(impl, at->storage), at->data) == (char *)weight->layout[WEFT_LAYOUT - 1]
           && version_of(at, impl) == weight->version;
}

static int same_weight(const weft_torch *torch, const weft_weight *weight)
{
    if (weight->calibrated) {
        return same_place(torch, weight) && same_samples(weight);
    } else {
        const char *data;
        uint64_t version;
        return asked(torch, weight, &data, &version) && data == weight->data
               && version == weight->version && same_samples(weight);
    }
}

static void take_weight(const weft_torch *torch, weft_weight *weight)
{
    const weft_offsets *const at = &torch->at;
    int i;
    if (!asked(torch, weight, &weight->data, &weight->version)) {
        weight->sample_bytes = 0;
        weight->data = NULL;
        weight->calibrated = 0;
        return;
    }
    if (weight->calibrated) {
        weight->impl = address(weight->tensor, at->impl);
        memcpy(weight->layout, weight->impl + at->storage, (size_t)(at->end - at->storage));
        weight->layout[WEFT_LAYOUT - 1] = word(address(weight->impl, at->storage), at->data);
        weight->version = version_of(at, weight->impl);
    }
    for (i = 0; i < WEFT_SAMPLES; ++i) {
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

static int same_dict(const weft_torch *torch, weft_dict *known)
{
    const int64_t at = torch->at.tag;
    if (at >= 0 && word(known->dict, at) == known->tag) {
        return 1;
    }
    if (!same_items(known)) {
        return 0;
    }
    if (at >= 0) {
        known->tag = word(known->dict, at);
    }
    return 1;
}

/* --- all of them ----------------------------------------------------------------------------- */

/* Notes how the weights are now. */
void weft_take(weft_watch *watch)
{
    int64_t i;
    for (i = 0; i < watch->weight_count; ++i) {
        take_weight(watch->torch, &watch->weights[i]);
    }
}

/* Whether nothing has changed. */
int weft_same(weft_watch *watch)
{
    const weft_torch *const torch = watch->torch;
    int64_t i;
    for (i = 0; i < watch->class_count; ++i) {
        if (watch->classes[i].object->ob_type != watch->classes[i].type) {
            return 0;
        }
    }
    for (i = 0; i < watch->dict_count; ++i) {
        if (!same_dict(torch, &watch->dicts[i])) {
            return 0;
        }
    }
    for (i = 0; i < watch->weight_count; ++i) {
        if (!same_weight(torch, &watch->weights[i])) {
            return 0;
        }
    }
    return 1;
}
