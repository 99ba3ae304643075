/*
 * Times functions beside each other: each round calls all of them in turn, in an order that
 * moves on, as often as takes about SLICE seconds.  contestants.h declares them.
 *
 * onnxruntime is loaded when it runs.  Its functions are members of a table that only grows
 * ("Version 1 of OrtApi never changes" is asserted in its sources), so that no header is needed:
 * the numbers below are places in that table.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void contestant(const float *x, float *y);
typedef struct { const char *name; contestant *run; } entry;

static float *ort_y;

enum { GET_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_OPTIONS = 10,
       SET_OPTIMIZATION = 23, SET_THREADS = 24, CREATE_TENSOR = 49, CREATE_MEMORY = 69 };
typedef struct { const void *const *(*get)(uint32_t); const char *(*version)(void); } ort_base;
typedef void *(*ort_run)(void *, const void *, const char *const *, void *const *, size_t,
                         const char *const *, size_t, void **);
static const void *const *ort;
static void *ort_session, *ort_input, *ort_output;
static const char *const ort_in[] = {"x"}, *const ort_out[] = {"y"};

#define CALL(place, type, ...) check(((void *(*)type)ort[place])(__VA_ARGS__))
static void check(void *status)
{
    if (status) {
        fprintf(stderr, "onnxruntime: %s\n", ((const char *(*)(void *))ort[GET_MESSAGE])(status));
        exit(1);
    }
}

static void onnxruntime(const float *x, float *y)
{
    (void)x;
    (void)y;
    check(((ort_run)ort[RUN])(ort_session, NULL, ort_in, &ort_input, 1, ort_out, 1, &ort_output));
}

static void open_onnxruntime(const char *library, const char *model, float *x, size_t x_size,
                             const int64_t *x_shape, float *y, size_t y_size,
                             const int64_t *y_shape, size_t y_rank)
{
    void *env, *options, *memory, *found = dlopen(library, RTLD_NOW);
    const ort_base *base;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    base = ((const ort_base *(*)(void))dlsym(found, "OrtGetApiBase"))();
    ort = base->get(1);
    CALL(CREATE_ENV, (int, const char *, void **), 3, "race", &env);
    CALL(CREATE_OPTIONS, (void **), &options);
    CALL(SET_OPTIMIZATION, (void *, int), options, 99);
    CALL(SET_THREADS, (void *, int), options, 1);
    CALL(CREATE_SESSION, (void *, const char *, void *, void **), env, model, options,
         &ort_session);
    CALL(CREATE_MEMORY, (int, int, void **), 1, 0, &memory);
    CALL(CREATE_TENSOR, (void *, void *, size_t, const int64_t *, size_t, int, void **), memory, x,
         4 * x_size, x_shape, 4, 1, &ort_input);
    CALL(CREATE_TENSOR, (void *, void *, size_t, const int64_t *, size_t, int, void **), memory, y,
         4 * y_size, y_shape, y_rank, 1, &ort_output);
}

#include "contestants.h"
#define COUNT (sizeof contestants / sizeof *contestants)

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void read_floats(const char *path, float *into, size_t count)
{
    FILE *file = fopen(path, "rb");
    if (!file || fread(into, sizeof *into, count, file) != count) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

/* race LIBRARY MODEL ROUNDS SLICE, or race NAME CALLS: this one alone, for counters. */
int main(int argc, char **argv)
{
    static float x[X_SIZE] __attribute__((aligned(64))), first[X_SIZE], y[Y_SIZE], expected[Y_SIZE];
    static double times[COUNT][1000];
    long calls[COUNT];
    size_t i;
    int round, rounds;
    double slice;
    read_floats("x.bin", x, X_SIZE);
    read_floats("x_first.bin", first, X_SIZE);
    read_floats("y.bin", expected, Y_SIZE);
    if (argc == 3) {
        for (i = 0; i < COUNT; ++i)
            if (!strcmp(contestants[i].name, argv[1]))
                for (round = 0; round < atoi(argv[2]); ++round)
                    contestants[i].run(x, y);
        return 0;
    }
    if (argc != 5)
        return 2;
    rounds = atoi(argv[3]);
    slice = atof(argv[4]);
    if (*argv[1]) {
        static const int64_t x_shape[] = X_SHAPE, y_shape[] = Y_SHAPE;
        ort_y = malloc(sizeof y);
        open_onnxruntime(argv[1], argv[2], first, X_SIZE, x_shape, ort_y, Y_SIZE, y_shape,
                         sizeof y_shape / sizeof *y_shape);
    }
    for (i = !*argv[1]; i < COUNT; ++i) {
        double start, took = 0, off = 0;
        long j;
        memset(y, 0, sizeof y);
        contestants[i].run(x, y);
        if (contestants[i].run == onnxruntime)
            memcpy(y, ort_y, sizeof y);
        for (j = 0; j < Y_SIZE; ++j) {
            long at = contestants[i].run == onnxruntime ? FIRST_AT(j) : j;
            double apart = y[at] > expected[j] ? y[at] - expected[j] : expected[j] - y[at];
            if (!(apart <= off))
                off = apart;
        }
        if (!(off < 1e-4)) {
            fprintf(stderr, "%s is off by %g\n", contestants[i].name, off);
            return 1;
        }
        for (calls[i] = 1; took < slice / 2; calls[i] *= 2) {
            start = now();
            for (j = 0; j < calls[i]; ++j)
                contestants[i].run(x, y);
            took = now() - start;
        }
    }
    for (round = 0; round < rounds; ++round)
        for (size_t k = 0; k < COUNT; ++k) {
            double start;
            i = (k + round) % COUNT;
            if (!i && !*argv[1])
                continue;
            start = now();
            for (long j = 0; j < calls[i]; ++j)
                contestants[i].run(x, y);
            times[i][round] = (now() - start) / calls[i];
        }
    for (i = !*argv[1]; i < COUNT; ++i) {
        qsort(times[i], rounds, sizeof(double), by_size);
        printf("%s %.9g %.9g\n", contestants[i].name, times[i][rounds / 2], times[i][rounds / 10]);
    }
    return 0;
}
