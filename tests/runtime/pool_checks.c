/* Checks of weft_pool.c, each a program run: pool_checks NAME.  See test_pool.py. */
#define _GNU_SOURCE
#include "weft_pool.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 16
#define CALLERS 8

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* What a task is given: no locks and no atomics, so that the thread sanitizer sees whether the
 * pool alone puts the parts between what the caller does before and after. */
typedef struct job {
    int input;
    int visits[MOST][32];
    int parts;
    pthread_t threads[MOST];
    weft_pool *pool;
} job;

static void visit(void *context, int part, int parts)
{
    job *const it = (job *)context;
    CHECK(part >= 0 && part < parts && parts <= MOST);
    it->visits[part][0] += it->input;
    it->threads[part] = pthread_self();
    if (part == 0) {
        it->parts = parts;
    }
}

/* Every part of a call was run once. */
static void run_once(weft_pool *pool, job *it, int parts, int number)
{
    int total = 0;
    int i;
    memset(it, 0, sizeof *it);
    it->input = number;
    weft_pool_run(pool, parts, visit, it);
    CHECK(it->parts >= 1 && it->parts <= parts);
    for (i = 0; i < MOST; ++i) {
        CHECK(it->visits[i][0] == (i < it->parts ? number : 0));
        total += it->visits[i][0];
    }
    CHECK(total == it->parts * number);
}

static void every_part(void)
{
    weft_pool *pool = weft_pool_new(6, 0);
    static job it;
    int as_asked = 0;
    int i;
    for (i = 1; i < 3000; ++i) {
        run_once(pool, &it, 1 + i % 6, i);
        as_asked += it.parts == 1 + i % 6;
    }
    /* Fewer where they do not pay. */
    CHECK(as_asked >= 500 + 10);
    run_once(pool, &it, MOST, 3);
    CHECK(it.parts <= 6);
    weft_pool_free(pool);
    weft_pool_free(NULL);
}

static void nap(long microseconds)
{
    const struct timespec time = {0, microseconds * 1000};
    (void)nanosleep(&time, NULL);
}

/* The caller is not done before the others have had the time to begin. */
static void linger(void *context, int part, int parts)
{
    if (part == 0) {
        nap(20000);
    }
    visit(context, part, parts);
}

/* The caller runs part 0, and each other part is always the same thread's or the caller's. */
static void same_threads(void)
{
    weft_pool *pool = weft_pool_new(4, 0);
    static job first;
    static job it;
    int i;
    int k;
    first.input = 1;
    weft_pool_run(pool, 4, linger, &first);
    CHECK(first.parts == 4);
    for (k = 1; k < 4; ++k) {
        CHECK(!pthread_equal(first.threads[k], pthread_self()));
        CHECK(!pthread_equal(first.threads[k], first.threads[k % 3 + 1]));
    }
    for (i = 0; i < 300; ++i) {
        run_once(pool, &it, 2 + i % 3, 1);
        CHECK(pthread_equal(it.threads[0], pthread_self()));
        for (k = 1; k < it.parts; ++k) {
            CHECK(pthread_equal(it.threads[k], first.threads[k])
                  || pthread_equal(it.threads[k], pthread_self()));
        }
    }
    weft_pool_free(pool);
}

typedef struct held {
    atomic_int begun;
    int parts;
} held;

/* The caller is done when the worker has begun, which then stops. */
static void hold(void *context, int part, int parts)
{
    held *const it = (held *)context;
    int i;
    if (part == 0) {
        it->parts = parts;
        for (i = 0; i < 100 && parts > 1 && !atomic_load(&it->begun); ++i) {
            nap(100);
        }
    } else if (!atomic_exchange(&it->begun, 1)) {
        nap(10000);
    }
}

static void count_parts(void *context, int part, int parts)
{
    if (part == 0) {
        *(int *)context = parts;
    }
}

/* Parts that do not pay, because one of the threads always stops for long, become fewer, and
 * more again soon, however often that happens. */
static void unhelpful(void)
{
    weft_pool *pool = weft_pool_new(2, 0);
    int parts = 2;
    int time;
    int i;
    for (time = 0; time < 6; ++time) {
        for (i = 0; i < 100 && parts == 2; ++i) {
            held it = {0, 0};
            weft_pool_run(pool, 2, hold, &it);
            weft_pool_run(pool, 2, count_parts, &parts);
        }
        CHECK(parts == 1);
        /* A nap takes a millisecond at the least. */
        for (i = 0; i < 110 && parts == 1; ++i) {
            nap(1000);
            weft_pool_run(pool, 2, count_parts, &parts);
        }
        CHECK(parts == 2);
    }
    weft_pool_free(pool);
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    CHECK(clock_gettime(clock, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Spins for 3 ms; sets the flag if the thread had no core for more than a fifth of that time. */
static void *spin(void *flag)
{
    const double wall = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_THREAD_CPUTIME_ID);
    while (seconds(CLOCK_MONOTONIC) < wall + 3e-3) {
    }
    *(int *)flag = seconds(CLOCK_THREAD_CPUTIME_ID) - used < 0.8 * (seconds(CLOCK_MONOTONIC) - wall);
    return NULL;
}

/* Whether two threads do not have two cores now. */
static int cores_are_missing(void)
{
    pthread_t other;
    int here = 0, there = 0;
    CHECK(pthread_create(&other, NULL, spin, &there) == 0);
    spin(&here);
    CHECK(pthread_join(other, NULL) == 0);
    return here || there;
}

/* What it costs to wake a worker after a pause says nothing about whether parts pay.  Where other
 * processes want the cores it may not sleep yet, and then its delay does say something. */
static void woken(void)
{
    weft_pool *pool = weft_pool_new(2, 0);
    int forked = 0, missing = 0;
    int i;
    for (i = 0; i < 300 && forked < 15; ++i) {
        held it = {0, 0};
        if (i % 10 == 9) {
            missing += cores_are_missing();
        }
        nap(3000);
        weft_pool_run(pool, 2, hold, &it);
        forked = it.parts == 2 ? forked + 1 : 0;
    }
    weft_pool_free(pool);
    if (forked < 15 && missing > 0) {
        puts("other processes want the cores: the delays of workers say something");
        exit(77);
    }
    CHECK(forked == 15);
}

typedef struct cores {
    pthread_t caller;
    int usable[MOST][32]; /* to the worker of a part; 0 if the caller ran it */
} cores;

static int usable_cores(void)
{
    cpu_set_t mask;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    return CPU_COUNT(&mask);
}

static void count_cores(void *context, int part, int parts)
{
    cores *const it = (cores *)context;
    if (part == 0) {
        nap(5000);
    } else {
        it->usable[part][0] = pthread_equal(pthread_self(), it->caller) ? 0 : usable_cores();
    }
    (void)parts;
}

/* Workers leave the core of the caller alone if there are enough others. */
static void kept_away(void)
{
    const int all = usable_cores();
    int most;
    for (most = 2; most <= 4; ++most) {
        weft_pool *pool = weft_pool_new(most, 0);
        int part;
        for (part = 1; part < most; ++part) {
            cores it = {pthread_self(), {{0}}};
            int i;
            for (i = 0; i < 300 && it.usable[part][0] == 0; ++i) {
                weft_pool_run(pool, most, count_cores, &it);
            }
            CHECK(it.usable[part][0] == (all >= most ? all - 1 : all));
        }
        CHECK(usable_cores() == all);
        weft_pool_free(pool);
    }
}

/* Workers that have gone to sleep, are about to, and have not. */
static void pauses(void)
{
    weft_pool *pool = weft_pool_new(3, 0);
    static job it;
    int i;
    for (i = 1; i < 200; ++i) {
        run_once(pool, &it, 3, i);
        nap(i % 4 == 0 ? 2000 : (i * 7) % 400);
    }
    weft_pool_free(pool);
}

static void slow(void *context, int part, int parts)
{
    if (part != 0) {
        nap(3000);
    }
    visit(context, part, parts);
}

/* The caller goes to sleep until the others are done. */
static void slow_workers(void)
{
    weft_pool *pool = weft_pool_new(3, 0);
    static job it;
    int i;
    for (i = 0; i < 20; ++i) {
        memset(&it, 0, sizeof it);
        it.input = 1;
        weft_pool_run(pool, 3, slow, &it);
        /* Fewer parts where others want the cores, too. */
        CHECK(it.parts >= 1 && it.parts <= 3);
        CHECK(it.visits[0][0] == 1);
        CHECK(it.visits[1][0] == (it.parts > 1) && it.visits[2][0] == (it.parts > 2));
    }
    weft_pool_free(pool);
}

static void *call_often(void *context)
{
    weft_pool *const pool = (weft_pool *)context;
    job *it = (job *)calloc(1, sizeof *it);
    int i;
    for (i = 1; i < 1250; ++i) {
        run_once(pool, it, 4, i);
    }
    free(it);
    return NULL;
}

/* Threads that call at once; the pool is first used by all of them. */
static void many_callers(void)
{
    weft_pool *pool = weft_pool_new(4, 0);
    pthread_t threads[CALLERS];
    int i;
    for (i = 0; i < CALLERS; ++i) {
        CHECK(pthread_create(&threads[i], NULL, call_often, pool) == 0);
    }
    for (i = 0; i < CALLERS; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    weft_pool_free(pool);
}

static void nest(void *context, int part, int parts)
{
    job *const outer = (job *)context;
    job *inner = (job *)calloc(1, sizeof *inner);
    run_once(outer->pool, inner, 4, part + 1);
    CHECK(inner->parts == 1);
    free(inner);
    visit(context, part, parts);
}

/* A task that calls the pool that runs it. */
static void nested(void)
{
    weft_pool *pool = weft_pool_new(4, 0);
    static job it;
    int i;
    for (i = 0; i < 200; ++i) {
        memset(&it, 0, sizeof it);
        it.input = 1;
        it.pool = pool;
        weft_pool_run(pool, 4, nest, &it);
        CHECK(it.parts <= 4 && it.visits[it.parts - 1][0] == 1);
    }
    weft_pool_free(pool);
}

/* More threads than cores. */
static void oversubscribed(void)
{
    weft_pool *pool = weft_pool_new(8, 0);
    static job it;
    cpu_set_t all;
    cpu_set_t one;
    int core = 0;
    int i;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET((size_t)core, &all)) {
        ++core;
    }
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    /* The workers, which are started now, inherit it: eight threads on one core. */
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    for (i = 1; i < 300; ++i) {
        run_once(pool, &it, 8, i);
    }
    weft_pool_free(pool);
}

static void child(weft_pool *pool)
{
    static job it;
    int i;
    for (i = 1; i < 50; ++i) {
        run_once(pool, &it, 4, i);
        CHECK(i > 1 || it.parts == 4);
    }
    weft_pool_free(pool);
    _exit(0);
}

static void forked(void)
{
    weft_pool *pool = weft_pool_new(4, 0);
    static job it;
    pthread_t other;
    int number;
    run_once(pool, &it, 4, 1);
    /* Another thread has the pool, or has not, when the process is forked. */
    CHECK(pthread_create(&other, NULL, call_often, pool) == 0);
    for (number = 0; number < 10; ++number) {
        int status = 1;
        const pid_t pid = fork();
        if (pid == 0) {
            child(pool);
        }
        CHECK(pid > 0);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        nap(300);
    }
    CHECK(pthread_join(other, NULL) == 0);
    run_once(pool, &it, 4, 1);
    weft_pool_free(pool);
}

static void divide(void *context, int part, int parts)
{
    volatile float *const quotients = (volatile float *)context;
    volatile float three = 3.0f;
    quotients[part * 32] = 1.0f / three;
    (void)parts;
}

/* Results must not depend on the thread: all round as the caller does. */
static void rounding(void)
{
    weft_pool *pool = weft_pool_new(3, 0);
    static float quotients[3 * 32];
    const int modes[] = {FE_UPWARD, FE_TONEAREST, FE_DOWNWARD};
    float before = 2.0f;
    int i;
    for (i = 0; i < 3; ++i) {
        CHECK(fesetround(modes[i]) == 0);
        memset(quotients, 0, sizeof quotients);
        weft_pool_run(pool, 3, divide, quotients);
        CHECK(quotients[0] == quotients[32] && quotients[0] == quotients[64]);
        CHECK(i == 1 || quotients[0] < before);
        before = quotients[0];
    }
    weft_pool_free(pool);
}

static void pinned_to(void *context, int part, int parts)
{
    cpu_set_t own;
    if (part == 0) {
        nap(20000);
    }
    CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
    ((int *)context)[part * 32] = CPU_COUNT(&own);
    (void)parts;
}

static void pinned(void)
{
    weft_pool *pool = weft_pool_new(3, 1);
    static int counts[3 * 32];
    cpu_set_t own;
    int i;
    CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
    /* A thread is bound by whoever starts it, maybe while it runs already; and the caller does the
       parts of threads that a busy machine keeps waiting. */
    for (i = 0; i < 100 && !(counts[32] == 1 && counts[64] == 1); ++i) {
        weft_pool_run(pool, 3, pinned_to, counts);
        nap(1000);
    }
    CHECK(counts[0] == CPU_COUNT(&own));
    CHECK(counts[32] == 1 && counts[64] == 1);
    weft_pool_free(pool);
}

/* Pools come and go, used or not, and there may be several. */
static void several(void)
{
    static job it;
    weft_pool *pools[4];
    int round;
    int i;
    for (round = 0; round < 20; ++round) {
        for (i = 0; i < 4; ++i) {
            pools[i] = weft_pool_new(i, 0);
            CHECK(pools[i] != NULL);
        }
        for (i = 0; i < 4; ++i) {
            run_once(pools[i], &it, 3, i + 1);
            CHECK(it.parts == (i < 1 ? 1 : i));
        }
        for (i = 0; i < 4; ++i) {
            weft_pool_free(pools[(i + round) % 4]);
        }
    }
}

/* A program may end while workers sleep or spin. */
static void left_alone(void)
{
    weft_pool *pool = weft_pool_new(4, 0);
    static job it;
    run_once(pool, &it, 4, 1);
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {
    {"every_part", every_part},
    {"same_threads", same_threads},
    {"unhelpful", unhelpful},
    {"woken", woken},
    {"kept_away", kept_away},
    {"pauses", pauses},
    {"slow_workers", slow_workers},
    {"many_callers", many_callers},
    {"nested", nested},
    {"oversubscribed", oversubscribed},
    {"forked", forked},
    {"rounding", rounding},
    {"pinned", pinned},
    {"several", several},
    {"left_alone", left_alone},
};

int main(int count, char **arguments)
{
    size_t i;
    for (i = 0; i < sizeof checks / sizeof checks[0]; ++i) {
        if (count == 1) {
            puts(checks[i].name);
        } else if (strcmp(arguments[1], checks[i].name) == 0) {
            checks[i].check();
            return 0;
        }
    }
    return count == 1 ? 0 : 2;
}
