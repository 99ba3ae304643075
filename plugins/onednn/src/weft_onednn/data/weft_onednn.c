/* Convolutions and products of matrices by oneDNN, version 3, as Weft calls them. */
#define _GNU_SOURCE /* for RTLD_DEFAULT */
#include "weft_onednn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* What is made here stays until the program ends, as oneDNN's code does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_engine_t engine;

/* oneDNN runs on OpenMP's threads.  How many there are is a setting of the calling thread, of
 * the run time that oneDNN was linked with: it is looked up, not linked. */
static int (*most_threads)(void);
static void (*set_threads)(int);

static int with_threads(int count)
{
    int before = 0;
    if (most_threads != NULL && set_threads != NULL) {
        before = most_threads();
        if (before != count)
            set_threads(count);
    }
    return before;
}

static void back_to_threads(int before, int count)
{
    if (before != 0 && before != count)
        set_threads(before);
}

static int start(void)
{
    if (engine != NULL)
        return 0;
    /* POSIX lets a pointer to data hold one to a function, ISO C has no word for it. */
    *(void **)&most_threads = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    return dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success;
}

static int described(dnnl_memory_desc_t *found, int rank, const dnnl_dims_t dims,
                     const dnnl_dims_t steps)
{
    return dnnl_memory_desc_create_with_strides(found, rank, dims, dnnl_f32, steps)
           != dnnl_success;
}

/* One number for each channel, or for each column. */
static int described_bias(dnnl_memory_desc_t *found, const weft_onednn_work *what)
{
    dnnl_dims_t dims;
    if (what->rank == 2) {
        dims[0] = 1;
        dims[1] = what->target[1];
        return dnnl_memory_desc_create_with_tag(found, 2, dims, dnnl_f32, dnnl_ab) != dnnl_success;
    }
    dims[0] = what->target[1];
    return dnnl_memory_desc_create_with_tag(found, 1, dims, dnnl_f32, dnnl_a) != dnnl_success;
}

/* Attributes: memory to work in comes from the caller; what is done to the sums. */
static int attributes(weft_onednn_layer *layer, dnnl_post_ops_t list, dnnl_primitive_attr_t made)
{
    const weft_onednn_work *what = layer->what;
    int place, added = 0;
    for (place = 0; place < what->count; ++place) {
        const weft_onednn_after *each = &what->after[place];
        dnnl_memory_desc_t other;
        dnnl_status_t status = dnnl_success;
        switch (each->kind) {
        case WEFT_ONEDNN_RELU:
            status = dnnl_post_ops_append_eltwise(list, dnnl_eltwise_relu, 0.0f, 0.0f);
            break;
        case WEFT_ONEDNN_CLIP:
            status = dnnl_post_ops_append_eltwise(list, dnnl_eltwise_clip, each->low, each->high);
            break;
        case WEFT_ONEDNN_ADD:
            if (described(&other, what->rank, each->dims, each->steps) != 0)
                return 1;
            layer->added[added++] = other;
            status = dnnl_post_ops_append_binary(list, dnnl_binary_add, other);
            break;
        }
        if (status != dnnl_success)
            return 1;
    }
    return dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user) != dnnl_success
           || dnnl_primitive_attr_set_post_ops(made, list) != dnnl_success;
}

static int create(weft_onednn_layer *layer, const_dnnl_primitive_attr_t attribute)
{
    const weft_onednn_work *what = layer->what;
    dnnl_memory_desc_t source, filter, bias = NULL, target;
    dnnl_primitive_desc_t made;
    dnnl_status_t status;
    if (described(&source, what->rank, what->source, what->source_steps) != 0
        || described(&target, what->rank, what->target, what->target_steps) != 0
        || dnnl_memory_desc_create_with_tag(&filter, what->rank, what->filter, dnnl_f32,
                                            what->layout)
               != dnnl_success
        || (what->bias && described_bias(&bias, what) != 0))
        return 1;
    if (what->rank == 2)
        status = dnnl_matmul_primitive_desc_create(&made, engine, source, filter, bias, target,
                                                   attribute);
    else
        status = dnnl_convolution_forward_primitive_desc_create(
            &made, engine, dnnl_forward_inference, dnnl_convolution_direct, source, filter, bias,
            target, what->strides, what->dilations, what->before, what->behind, attribute);
    if (status != dnnl_success)
        return 1;
    layer->source = source;
    layer->filter = filter;
    layer->bias = bias;
    layer->target = target;
    layer->scratchpad = dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
    if (layer->scratchpad != NULL && dnnl_memory_desc_get_size(layer->scratchpad) > what->scratch)
        return 1;
    return dnnl_primitive_create(&layer->primitive, made) != dnnl_success;
}

static int made(weft_onednn_layer *layer)
{
    dnnl_primitive_attr_t attribute;
    dnnl_post_ops_t list;
    int before, failed;
    if (start() != 0 || dnnl_post_ops_create(&list) != dnnl_success)
        return 1;
    if (dnnl_primitive_attr_create(&attribute) != dnnl_success) {
        dnnl_post_ops_destroy(list);
        return 1;
    }
    before = with_threads(layer->what->threads);
    failed = attributes(layer, list, attribute) != 0 || create(layer, attribute) != 0;
    back_to_threads(before, layer->what->threads);
    dnnl_primitive_attr_destroy(attribute);
    dnnl_post_ops_destroy(list);
    return failed;
}

int weft_onednn_prepare(weft_onednn_layer *layer)
{
    int failed = 0;
    if (__atomic_load_n(&layer->ready, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&lock);
    if (!layer->ready) {
        failed = made(layer);
        if (!failed)
            __atomic_store_n(&layer->ready, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return failed;
}

typedef struct {
    dnnl_exec_arg_t list[5 + WEFT_ONEDNN_MOST_AFTER];
    int count;
    int failed;
} arguments;

static void argument(arguments *all, int kind, const_dnnl_memory_desc_t what, const void *data)
{
    dnnl_exec_arg_t *next = &all->list[all->count];
    if (all->failed || what == NULL || dnnl_memory_desc_get_size(what) == 0)
        return;
    /* What it only reads, oneDNN takes by pointers that are not const, too. */
    all->failed = dnnl_memory_create(&next->memory, what, engine, (void *)data) != dnnl_success;
    next->arg = kind;
    all->count += !all->failed;
}

static void executed(const weft_onednn_layer *layer, arguments *all)
{
    dnnl_stream_t stream;
    int threads = layer->what->threads, before;
    if (dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success) {
        all->failed = 1;
        return;
    }
    before = with_threads(threads);
    all->failed = dnnl_primitive_execute(layer->primitive, stream, all->count, all->list)
                      != dnnl_success
                  || dnnl_stream_wait(stream) != dnnl_success;
    back_to_threads(before, threads);
    dnnl_stream_destroy(stream);
}

void weft_onednn_run(const weft_onednn_layer *layer, const float *source, const float *filter,
                     const float *bias, const float *const *added, void *scratch, float *target)
{
    const weft_onednn_work *what = layer->what;
    arguments all;
    int place, next = 0;
    all.count = 0;
    all.failed = 0;
    argument(&all, DNNL_ARG_SRC, layer->source, source);
    argument(&all, DNNL_ARG_WEIGHTS, layer->filter, filter);
    argument(&all, DNNL_ARG_BIAS, layer->bias, bias);
    argument(&all, DNNL_ARG_DST, layer->target, target);
    argument(&all, DNNL_ARG_SCRATCHPAD, layer->scratchpad, scratch);
    for (place = 0; place < what->count; ++place) {
        if (what->after[place].kind != WEFT_ONEDNN_ADD)
            continue;
        argument(&all, DNNL_ARG_ATTR_MULTIPLE_POST_OP(place) | DNNL_ARG_SRC_1,
                 layer->added[next], added[next]);
        ++next;
    }
    if (!all.failed)
        executed(layer, &all);
    for (place = 0; place < all.count; ++place)
        dnnl_memory_destroy(all.list[place].memory);
    /* There was no memory left for its few objects.  All bits set are NaN, which shows. */
    if (all.failed)
        memset(target, 0xff, dnnl_memory_desc_get_size(layer->target));
}
