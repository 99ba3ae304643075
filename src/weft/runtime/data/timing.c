/*
 * Calls a run function again and again, as a C program does.  Each is defined by the compiler's
 * command line: TYPES lists the parameters of the run function, VALUES the elements of `values`
 * that they are given.
 */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int (*run_function)(TYPES);

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Nanoseconds of each batch of so many runs.  Returns what the last run does, or the first one
   that fails. */
int weft_time(run_function run, void *const *values, int64_t runs, int64_t batches, int64_t *times)
{
    for (int64_t batch = 0; batch < batches; ++batch) {
        int64_t start = now();
        for (int64_t i = 0; i < runs; ++i) {
            int code = run(VALUES);
            if (code != 0)
                return code;
        }
        times[batch] = now() - start;
    }
    return 0;
}

/* Runs so often, and keeps what each run writes to some bytes.  Returns as weft_time does. */
int weft_record(run_function run, void *const *values, int64_t runs, const void *from,
                int64_t bytes, char *to)
{
    for (int64_t i = 0; i < runs; ++i) {
        int code = run(VALUES);
        if (code != 0)
            return code;
        memcpy(to + i * bytes, from, (size_t)bytes);
    }
    return 0;
}
