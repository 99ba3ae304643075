/* A pool of threads: see weft_pool.h.  Needs C11 and POSIX threads.
 *
 * Each worker has a line of memory that only the caller writes (a ticket and the task) and one
 * that only the worker writes (the ticket that is done), so a fork and join costs two moves of
 * a cache line in each direction and no lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "weft_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* Two cache lines: processors fetch them in pairs. */
#define LINE 128
#define STACK_BYTES ((size_t)8 << 20)
/* Nanoseconds that an idle worker spins before it sleeps: the more, the more it paid off. */
#define LEAST_SPIN 50000L
#define MOST_SPIN 200000L
/* What it yields after that. */
#define IDLE_YIELDS 16
/* Nanoseconds that the caller spins for the others, and that it yields before it sleeps. */
#define JOIN_SPIN 20000L
#define JOIN_YIELD 500000L
/* Where other threads want this core, nobody spins for longer. */
#define CROWDED_SPIN 1000L
/* A yield that took longer let another thread run; so many waits then remember it. */
#define SLOW_YIELD 10000L
#define CROWDED_WAITS 64

typedef void (*weft_task)(void *context, int part, int parts);

typedef struct weft_worker {
    /* Written by the caller. */
    _Alignas(LINE) atomic_uint ticket;
    weft_task task; /* a null pointer ends the thread */
    void *context;
    int parts;
    int crowded;
    unsigned long float_mode;
    /* Written by the worker. */
    _Alignas(LINE) atomic_uint done;
    atomic_int asleep;
    /* For going to sleep. */
    _Alignas(LINE) pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Constant while the thread lives. */
    weft_pool *pool;
    int part;
    unsigned first_ticket;
    pthread_t thread;
} weft_worker;

struct weft_pool {
    /* Whether a caller has the pool. */
    _Alignas(LINE) atomic_int busy;
    /* The caller's own, while it has the pool. */
    int started;
    int most;
    int crowded_waits;
    /* Whether the caller sleeps until a worker is done. */
    _Alignas(LINE) atomic_int waiting;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int cores;
    int pin;
    weft_pool *next;
    weft_worker workers[];
};

/* --- waiting --------------------------------------------------------------------------------- */

static long nanoseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    /* Differences are what counts, and those are small: it may wrap. */
    return (long)((unsigned long)now.tv_sec * 1000000000UL + (unsigned long)now.tv_nsec);
}

static long since(long start)
{
    return (long)((unsigned long)nanoseconds() - (unsigned long)start);
}

static void relax(void)
{
#if defined(__i386__) || defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

static int changed(atomic_uint *word, unsigned old)
{
    return atomic_load_explicit(word, memory_order_acquire) != old;
}

/* Waits for about so long until a word changes; returns whether it has. */
static int spin(atomic_uint *word, unsigned old, long budget)
{
    const long start = nanoseconds();
    int i;
    do {
        for (i = 0; i < 32; ++i) {
            if (changed(word, old)) {
                return 1;
            }
            relax();
        }
    } while (since(start) < budget);
    return changed(word, old);
}

/* Lets other threads run once; remembers if there were any. */
static void yield(int *crowded_waits)
{
    const long start = nanoseconds();
    (void)sched_yield();
    if (since(start) > SLOW_YIELD) {
        *crowded_waits = CROWDED_WAITS;
    }
}

/* How long to spin where it is not crowded. */
static long patience(int *crowded_waits, long budget)
{
    if (*crowded_waits == 0) {
        return budget;
    }
    --*crowded_waits;
    return CROWDED_SPIN;
}

/* --- the floating-point mode: results must not depend on which thread computes them ---------- */

static unsigned long float_mode(void)
{
#if defined(__SSE__)
    return _mm_getcsr() & ~0x3fu; /* without what happened so far */
#elif defined(__aarch64__)
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
#else
    return 0;
#endif
}

static void set_float_mode(unsigned long mode)
{
#if defined(__SSE__)
    _mm_setcsr((unsigned)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}

/* --- workers --------------------------------------------------------------------------------- */

static void sleep_until_called(weft_worker *self, unsigned old)
{
    (void)pthread_mutex_lock(&self->lock);
    /* In the order of these: the caller stores the ticket, then looks who sleeps. */
    atomic_store(&self->asleep, 1);
    while (atomic_load(&self->ticket) == old) {
        (void)pthread_cond_wait(&self->wake, &self->lock);
    }
    atomic_store(&self->asleep, 0);
    (void)pthread_mutex_unlock(&self->lock);
}

static void await_call(weft_worker *self, unsigned old, long *budget, int *crowded_waits)
{
    int i;
    if (spin(&self->ticket, old, patience(crowded_waits, *budget))) {
        *budget = *budget < MOST_SPIN / 2 ? *budget * 2 : MOST_SPIN;
        return;
    }
    for (i = 0; i < IDLE_YIELDS; ++i) {
        yield(crowded_waits);
        if (changed(&self->ticket, old)) {
            return;
        }
    }
    *budget = *budget / 2 > LEAST_SPIN ? *budget / 2 : LEAST_SPIN;
    sleep_until_called(self, old);
}

static void *work(void *argument)
{
    weft_worker *const self = (weft_worker *)argument;
    weft_pool *const pool = self->pool;
    unsigned ticket = self->first_ticket;
    unsigned long mode = float_mode();
    long budget = MOST_SPIN;
    int crowded_waits = 0;
    for (;;) {
        await_call(self, ticket, &budget, &crowded_waits);
        ++ticket;
        if (self->task == NULL) {
            return NULL;
        }
        if (self->crowded) {
            crowded_waits = CROWDED_WAITS;
        }
        if (self->float_mode != mode) {
            mode = self->float_mode;
            set_float_mode(mode);
        }
        self->task(self->context, self->part, self->parts);
        atomic_store(&self->done, ticket);
        if (atomic_load(&pool->waiting)) {
            (void)pthread_mutex_lock(&pool->lock);
            (void)pthread_cond_signal(&pool->wake);
            (void)pthread_mutex_unlock(&pool->lock);
        }
    }
}

#if defined(__linux__)
/* The n-th core, counted round, of those that this process may use. */
static void pin(pthread_t thread, int n, int cores)
{
    cpu_set_t all;
    cpu_set_t one;
    size_t core;
    n %= cores;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        return;
    }
    for (core = 0; core < (size_t)CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &all) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            (void)pthread_setaffinity_np(thread, sizeof one, &one);
            return;
        }
    }
}
#else
static void pin(pthread_t thread, int n, int cores)
{
    (void)thread;
    (void)n;
    (void)cores;
}
#endif

static int start_worker(weft_pool *pool, weft_worker *worker)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t old;
    int failed;
    worker->first_ticket = atomic_load(&worker->ticket);
    if (pthread_attr_init(&attributes) != 0) {
        return 0;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* Signals are the business of the program's own threads. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&worker->thread, &attributes, work, worker);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (!failed && pool->pin) {
        pin(worker->thread, worker->part, pool->cores);
    }
    return !failed;
}

/* How many parts there are threads for, the caller's included, after starting those missing. */
static int gather(weft_pool *pool, int parts)
{
    parts = parts < pool->most ? parts : pool->most;
    while (pool->started < parts - 1) {
        if (!start_worker(pool, &pool->workers[pool->started])) {
            pool->most = pool->started + 1;
            return pool->most;
        }
        ++pool->started;
    }
    return parts;
}

static void call(weft_worker *worker, int parts, weft_task task, void *context, int crowded,
                 unsigned long mode)
{
    worker->task = task;
    worker->context = context;
    worker->parts = parts;
    worker->crowded = crowded;
    worker->float_mode = mode;
    atomic_store(&worker->ticket, atomic_load_explicit(&worker->ticket, memory_order_relaxed) + 1u);
    if (atomic_load(&worker->asleep)) {
        (void)pthread_mutex_lock(&worker->lock);
        (void)pthread_cond_signal(&worker->wake);
        (void)pthread_mutex_unlock(&worker->lock);
    }
}

static void join(weft_pool *pool, weft_worker *worker)
{
    const unsigned old = atomic_load_explicit(&worker->ticket, memory_order_relaxed) - 1u;
    long start;
    if (changed(&worker->done, old)
        || spin(&worker->done, old, patience(&pool->crowded_waits, JOIN_SPIN))) {
        return;
    }
    start = nanoseconds();
    while (since(start) < JOIN_YIELD) {
        yield(&pool->crowded_waits);
        if (changed(&worker->done, old)) {
            return;
        }
    }
    (void)pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waiting, 1);
    while (atomic_load(&worker->done) == old) {
        (void)pthread_cond_wait(&pool->wake, &pool->lock);
    }
    atomic_store(&pool->waiting, 0);
    (void)pthread_mutex_unlock(&pool->lock);
}

static void fork_and_join(weft_pool *pool, int parts, weft_task task, void *context)
{
    const unsigned long mode = float_mode();
    const int crowded = parts > pool->cores;
    int i;
    for (i = 0; i < parts - 1; ++i) {
        call(&pool->workers[i], parts, task, context, crowded, mode);
    }
    if (crowded) {
        pool->crowded_waits = CROWDED_WAITS;
    }
    task(context, 0, parts);
    for (i = 0; i < parts - 1; ++i) {
        join(pool, &pool->workers[i]);
    }
}

void weft_pool_run(void *memory, int parts, weft_task task, void *context)
{
    weft_pool *const pool = (weft_pool *)memory;
    if (parts < 2 || atomic_load_explicit(&pool->busy, memory_order_relaxed)
        || atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire)) {
        task(context, 0, 1);
        return;
    }
    parts = gather(pool, parts);
    if (parts < 2) {
        task(context, 0, 1);
    } else {
        fork_and_join(pool, parts, task, context);
    }
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
}

/* --- pools ----------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static weft_pool *pools;

/* A pool without threads. */
static void reset(weft_pool *pool, int workers)
{
    int i;
    atomic_store(&pool->busy, 0);
    atomic_store(&pool->waiting, 0);
    pool->started = 0;
    pool->crowded_waits = 0;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->wake, NULL);
    for (i = 0; i < workers; ++i) {
        weft_worker *const worker = &pool->workers[i];
        atomic_store(&worker->ticket, 0u);
        atomic_store(&worker->done, 0u);
        atomic_store(&worker->asleep, 0);
        (void)pthread_mutex_init(&worker->lock, NULL);
        (void)pthread_cond_init(&worker->wake, NULL);
        worker->pool = pool;
        worker->part = i + 1;
    }
}

static void before_fork(void)
{
    (void)pthread_mutex_lock(&pools_lock);
}

static void after_fork(void)
{
    (void)pthread_mutex_unlock(&pools_lock);
}

/* The child has one thread, and none of the workers. */
static void after_fork_in_child(void)
{
    weft_pool *pool;
    for (pool = pools; pool != NULL; pool = pool->next) {
        reset(pool, pool->started);
    }
    (void)pthread_mutex_unlock(&pools_lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static int usable_cores(void)
{
    long count;
#if defined(__linux__)
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) == 0) {
        return CPU_COUNT(&all);
    }
#endif
    count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

weft_pool *weft_pool_new(int most, int pin_threads)
{
    const size_t workers = most > 1 ? (size_t)most - 1u : 0u;
    void *memory = NULL;
    weft_pool *pool;
    if (posix_memalign(&memory, LINE, sizeof(weft_pool) + workers * sizeof(weft_worker)) != 0) {
        return NULL;
    }
    pool = (weft_pool *)memory;
    pool->most = (int)workers + 1;
    pool->cores = usable_cores();
    pool->pin = pin_threads;
    reset(pool, (int)workers);
    (void)pthread_once(&once, watch_forks);
    (void)pthread_mutex_lock(&pools_lock);
    pool->next = pools;
    pools = pool;
    (void)pthread_mutex_unlock(&pools_lock);
    return pool;
}

static void forget(const weft_pool *pool)
{
    weft_pool **link;
    (void)pthread_mutex_lock(&pools_lock);
    for (link = &pools; *link != NULL; link = &(*link)->next) {
        if (*link == pool) {
            *link = pool->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&pools_lock);
}

void weft_pool_free(weft_pool *pool)
{
    int i;
    if (pool == NULL) {
        return;
    }
    forget(pool);
    for (i = 0; i < pool->started; ++i) {
        call(&pool->workers[i], 0, NULL, NULL, 0, 0);
        (void)pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool);
}
