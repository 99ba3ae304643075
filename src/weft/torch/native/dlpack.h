/* What is used of DLPack 1.x, declared here because its headers may not be installed. */
#ifndef WEFT_DLPACK_H
#define WEFT_DLPACK_H

#include <stdint.h>

typedef struct DLTensor {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    struct {
        uint8_t code;
        uint8_t bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;

#define kDLCPU 1
#define kDLComplex 5

typedef struct DLPackExchangeAPI {
    uint32_t major;
    uint32_t minor;
    void *prev_api;
    void *managed_tensor_allocator;
    void *managed_tensor_from_py_object_no_sync;
    void *managed_tensor_to_py_object_no_sync;
    /* A view of a tensor that lives as long as the tensor; nonzero with an exception set. */
    int (*dltensor_from_py_object_no_sync)(void *object, DLTensor *out);
    void *current_work_stream;
} DLPackExchangeAPI;

#endif
