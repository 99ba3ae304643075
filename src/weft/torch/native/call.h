/* What Python lays out in memory for watch.c and call.c; native/__init__.py has the same. */
#ifndef WEFT_CALL_H
#define WEFT_CALL_H

#include "dlpack.h"
#include "python.h"

/* How PyTorch's and Python's objects lie in memory, as calibrated in this process; -1: unknown. */
typedef struct weft_offsets {
    int64_t impl;    /* in a tensor: its TensorImpl */
    int64_t storage; /* in a TensorImpl: its StorageImpl */
    int64_t counter; /* in a TensorImpl: its version counter, or a null pointer */
    int64_t layout;  /* in a TensorImpl: the first of WEFT_LAYOUT words */
    int64_t data;    /* in a StorageImpl: the address of the elements */
    int64_t version; /* in a version counter: 32 bits */
    int64_t tag;     /* in a dict: 64 bits that every change of it changes */
} weft_offsets;

/* What is asked of PyTorch, the same for all modules. */
typedef struct weft_torch {
    const DLPackExchangeAPI *api;
    weft_offsets at;
    void *tensor_type;
    void *parameter_type;
    PyObject *is_grad_enabled;
    PyObject *threads;
    /* Callables whose results must be these objects: no tracing, no modes, no autocast. */
    PyObject *const *quiet;
    PyObject *const *quiet_results;
    int64_t quiet_count;
    PyObject *forward_ad; /* the dict of torch.autograd.forward_ad */
    PyObject *level_name;
    PyObject *no_level;
    PyObject *is_neg;
    PyObject *is_conj;
    PyObject *new_output; /* makes a tensor of output_words arguments */
    int64_t output_words;
    PyObject *requires_grad;
    PyObject *version_name;
    PyObject *yes;
    PyObject *no;
    PyObject *miss; /* what a call gives that Python has to look at */
} weft_torch;

/* --- what must not have changed -------------------------------------------------------------- */

/* A dict, and the keys and values that it had, in turn. */
typedef struct weft_dict {
    PyObject *dict;
    uint64_t tag;
    PyObject *const *items;
    int64_t count;
} weft_dict;

typedef struct weft_class {
    PyObject *object;
    void *type;
} weft_class;

/* The number of dimensions, sizes, strides, the first element's place in the storage, the number
 * of elements, and their type. */
#define WEFT_DIMS 5
#define WEFT_LAYOUT (2 * WEFT_DIMS + 4)
#define WEFT_SAMPLES 4

/* A tensor in main memory: where it lies, its version, and some of its bytes.
 *
 * A call reads this of every weight, so what it compares is small and stands together.
 */
typedef struct weft_weight {
    PyObject *tensor;
    const char *impl;
    const char *storage;
    const char *start; /* of the storage's elements */
    const char *counter;
    uint32_t version;
    int16_t sample_bytes; /* 4, less where the tensor has less, or 0 */
    int16_t calibrated;   /* whether the memory of the tensor's objects is read */
    uint32_t samples[WEFT_SAMPLES];
    const char *sampled[WEFT_SAMPLES];
    uint64_t layout[WEFT_LAYOUT];
} weft_weight;

/* What is needed of a weight to look at it anew. */
typedef struct weft_places {
    const char *data;            /* the first element */
    int64_t bytes[WEFT_SAMPLES]; /* from there to the samples */
} weft_places;

typedef struct weft_watch {
    const weft_torch *torch;
    weft_dict *dicts;
    int64_t dict_count;
    weft_class *classes;
    int64_t class_count;
    weft_weight *weights;
    weft_places *places;
    int64_t weight_count;
} weft_watch;

void weft_take(weft_watch *watch);
int weft_same(weft_watch *watch);

/* --- calls ----------------------------------------------------------------------------------- */

/* A leaf of the arguments: a tensor of this type and layout, or else a value. */
typedef struct weft_leaf {
    PyObject *value; /* a null pointer for tensors */
    int32_t code;
    int32_t bits;
    int32_t ndim;
    int32_t floating;
    const int64_t *shape;
    const int64_t *strides;
} weft_leaf;

/* A leaf that is a tensor of indices, and between which values they must lie. */
typedef struct weft_bounds {
    int64_t leaf;
    int64_t least;
    int64_t most;
} weft_bounds;

/* Code for one signature, with its weights. */
typedef struct weft_entry {
    const weft_leaf *leaves;
    int64_t leaf_count;
    PyObject *instead; /* called with the leaves where it is more than one run; or a null pointer */
    int64_t *reads; /* the leaves that the run function takes */
    int64_t read_count;
    const weft_bounds *bounds;
    int64_t bound_count;
    PyObject *const *outputs; /* output_words arguments for each */
    int64_t output_count;
    const int64_t *gives; /* for each result, the output, or -1 for a constant */
    PyObject *const *constants;
    int64_t give_count;
    PyObject *unflatten; /* of the tuple of results; a null pointer if they are one leaf */
    void *function;
    PyObject *memory;   /* what keeps the weights */
    void *const *fixed; /* the last arguments */
    int64_t fixed_count;
    PyObject *new_arena; /* gives the address of scratch memory */
    int64_t arena_bytes;
    void **arenas; /* scratch memory that no call uses, for arena_most of them */
    int64_t arena_count;
    int64_t arena_most;
    void (*begin)(int threads); /* of weft_team.h, or a null pointer, ... */
    void (*end)(void);
    int64_t team; /* ... and the threads of the code */
    int64_t threads;
    int64_t nanoseconds; /* of the shortest run so far; 0 before the first */
    int64_t runs;
    int64_t ready; /* whether the weights are prepared */
} weft_entry;

/* Code that is called without a look at modules. */
typedef struct weft_part {
    const weft_torch *torch;
    weft_entry *entry;
} weft_part;

/* What a module runs for arguments given in one way. */
typedef struct weft_call {
    const weft_torch *torch;
    weft_watch *watch;
    weft_entry **entries;
    int64_t entry_count;
    int64_t threads; /* that a user set, or 0: PyTorch's number */
    PyObject *const *hooks; /* dicts of what PyTorch would call besides */
    int64_t hook_count;
} weft_call;

#endif
