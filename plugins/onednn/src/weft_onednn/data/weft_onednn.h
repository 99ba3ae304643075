/* Convolutions and products of matrices by oneDNN, version 3, as Weft calls them. */
#ifndef WEFT_ONEDNN_H
#define WEFT_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

enum { WEFT_ONEDNN_MOST_AFTER = 4 };

/* What is done to the sums: a ReLU, a clip to [low, high], or the sum with a tensor. */
typedef struct {
    enum { WEFT_ONEDNN_RELU, WEFT_ONEDNN_CLIP, WEFT_ONEDNN_ADD } kind;
    float low, high;
    dnnl_dims_t dims, steps;
} weft_onednn_after;

/* A convolution (batch, channels, rows and columns) or a product of two matrices, the right one
 * called filter, for which nothing is said of a window.  Steps count elements. */
typedef struct {
    int rank; /* 4 or 2 */
    dnnl_dims_t source, source_steps, filter, target, target_steps;
    dnnl_format_tag_t layout; /* of the filter */
    dnnl_dims_t strides, dilations, before, behind;
    int bias;
    int count;
    weft_onednn_after after[WEFT_ONEDNN_MOST_AFTER];
    size_t scratch; /* bytes that the caller gives */
    int threads;
} weft_onednn_work;

/* Work with what oneDNN made for it. */
typedef struct {
    const weft_onednn_work *what;
    int ready; /* set last, when all below can be read without a lock */
    dnnl_primitive_t primitive;
    const_dnnl_memory_desc_t source, filter, bias, target, scratchpad;
    const_dnnl_memory_desc_t added[WEFT_ONEDNN_MOST_AFTER];
} weft_onednn_layer;

/* Has oneDNN write the code of a layer, once; 0 if it did.  Any thread may call it. */
int weft_onednn_prepare(weft_onednn_layer *layer);

/* Runs a layer that is prepared.  `added` has a pointer for each sum with a tensor, in order;
 * `bias` and `scratch` are null where there are none.  Any threads may run it at once. */
void weft_onednn_run(const weft_onednn_layer *layer, const float *source, const float *filter,
                     const float *bias, const float *const *added, void *scratch, float *target);

#endif
