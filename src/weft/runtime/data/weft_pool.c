/* A pool of threads: see weft_pool.h.  Needs C11 and POSIX threads.
 *
 * Each worker has a line of memory that the caller writes (a ticket and the task) and one that
 * only the worker writes (the ticket that is done), so a fork and join costs two moves of a
 * cache line in each direction and no lock.
 *
 * Other processes may want the cores, too, and then a worker may be late.  So a part is nobody's
 * until somebody takes it: its worker, or the caller, who runs whatever is left when its own part
 * is done, and so never waits for a worker that has not begun.  A thread that waits spins for a
 * moment and then sleeps.
 *
 * A worker gives its core away between parts, as long as another thread wants it, so that it is
 * seldom stopped in the middle of a part, for which the caller would have to wait.  The caller
 * never does.  Where forks still do not pay, fewer threads are used for a while.
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

/* WEFT_POOL_PORTABLE: sleep on condition variables on Linux, too. */
#if defined(__linux__) && !defined(WEFT_POOL_PORTABLE)
#include <linux/futex.h>
#include <sys/syscall.h>
#if defined(SYS_futex)
#define WEFT_POOL_FUTEX 1
#endif
#endif

/* Two cache lines: processors fetch them in pairs. */
#define LINE 128
#define NO_CORE (-1)
#define STACK_BYTES ((size_t)8 << 20)
/* Nanoseconds that an idle worker spins before it sleeps: the more, the more it paid off. */
#define LEAST_SPIN 50000L
#define MOST_SPIN 200000L
/* Nanoseconds that the caller spins for the others before it sleeps. */
#define JOIN_SPIN 200000L
/* Whoever spins and sees this much time pass at once shares the core, and stops spinning. */
#define CROWDED 50000L
/* What a part may take at the least, where it is asked how long a worker was at it. */
#define LEAST_GAIN 5000L
/* Forks may lose so many nanoseconds that others have gained before ... */
#define MOST_CREDIT 4000000L
/* ... fewer threads are used, for so many times what was lost since: then no more than 5% is. */
#define REST_FACTOR 20L
#define MOST_REST 100000000L

typedef void (*weft_task)(void *context, int part, int parts);

/* For a thread that waits until a word changes. */
typedef struct weft_bed {
    atomic_int asleep;
#ifndef WEFT_POOL_FUTEX
    pthread_mutex_t lock;
    pthread_cond_t wake;
#endif
} weft_bed;

typedef struct weft_worker {
    /* Written by the caller: odd while the part is nobody's.  Who makes it even has the part. */
    _Alignas(LINE) atomic_uint ticket;
    weft_task task; /* a null pointer ends the thread */
    void *context;
    int parts;
    unsigned long float_mode;
    int helps; /* whether the worker took its part, when the caller looked */
    /* Written by the worker: the even ticket that is done, and how long it took. */
    _Alignas(LINE) atomic_uint done;
    long took;
    /* Where the worker sleeps until it is called, and the caller until the worker is done. */
    _Alignas(LINE) weft_bed worker_bed;
    weft_bed caller_bed;
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
    /* So many threads are used at once until a rest is over. */
    int limit;
    long rest_since;
    long rest;
    /* Nanoseconds that workers saved, less those that they cost. */
    long credit;
    /* When the last fork ended. */
    long end;
    /* The core of the caller, which workers stay away from. */
    int core;
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

static long between(long start, long end)
{
    return (long)((unsigned long)end - (unsigned long)start);
}

static long since(long start)
{
    return between(start, nanoseconds());
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

/* Waits for about so long until a word changes; returns whether it has.  A thread that does
 * not get all of its core stops at once.
 *   polite: whether to give way to others */
static int spin(atomic_uint *word, unsigned old, long budget, int polite)
{
    const long start = nanoseconds();
    long last = 0;
    int i;
    for (;;) {
        long passed;
        for (i = 0; i < 32; ++i) {
            if (changed(word, old)) {
                return 1;
            }
            relax();
        }
        if (polite) {
            (void)sched_yield();
        }
        passed = since(start);
        if (passed >= budget || passed - last >= CROWDED) {
            return changed(word, old);
        }
        last = passed;
    }
}

#ifdef WEFT_POOL_FUTEX
static void make_bed(weft_bed *bed)
{
    atomic_store(&bed->asleep, 0);
}

/* In the order of these: one stores the word, then looks who sleeps; the other the reverse. */
static void sleep_while(weft_bed *bed, atomic_uint *word, unsigned old)
{
    atomic_store(&bed->asleep, 1);
    while (atomic_load(word) == old) {
        (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    }
    atomic_store(&bed->asleep, 0);
}

static void rouse(weft_bed *bed, atomic_uint *word)
{
    (void)bed;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
static void make_bed(weft_bed *bed)
{
    atomic_store(&bed->asleep, 0);
    (void)pthread_mutex_init(&bed->lock, NULL);
    (void)pthread_cond_init(&bed->wake, NULL);
}

static void sleep_while(weft_bed *bed, atomic_uint *word, unsigned old)
{
    (void)pthread_mutex_lock(&bed->lock);
    atomic_store(&bed->asleep, 1);
    while (atomic_load(word) == old) {
        (void)pthread_cond_wait(&bed->wake, &bed->lock);
    }
    atomic_store(&bed->asleep, 0);
    (void)pthread_mutex_unlock(&bed->lock);
}

static void rouse(weft_bed *bed, atomic_uint *word)
{
    (void)word;
    (void)pthread_mutex_lock(&bed->lock);
    (void)pthread_cond_signal(&bed->wake);
    (void)pthread_mutex_unlock(&bed->lock);
}
#endif

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

/* Takes the part of a worker, if it is nobody's; its ticket is odd. */
static int take(weft_worker *worker, unsigned ticket)
{
    return atomic_compare_exchange_strong_explicit(&worker->ticket, &ticket, ticket + 1u,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Waits for a part and takes it; returns its ticket. */
static unsigned await_part(weft_worker *self, unsigned old, long *budget)
{
    for (;;) {
        if (spin(&self->ticket, old, *budget, 1)) {
            *budget = *budget < MOST_SPIN / 2 ? *budget * 2 : MOST_SPIN;
        } else {
            *budget = *budget / 2 > LEAST_SPIN ? *budget / 2 : LEAST_SPIN;
            sleep_while(&self->worker_bed, &self->ticket, old);
            (void)sched_yield();
        }
        old = atomic_load_explicit(&self->ticket, memory_order_relaxed);
        if ((old & 1u) != 0u && take(self, old)) {
            return old + 1u;
        }
        /* The caller was faster. */
        old = atomic_load_explicit(&self->ticket, memory_order_relaxed) & ~1u;
    }
}

static void *work(void *argument)
{
    weft_worker *const self = (weft_worker *)argument;
    unsigned ticket = self->first_ticket;
    unsigned long mode = float_mode();
    long budget = MOST_SPIN;
    for (;;) {
        long start;
        ticket = await_part(self, ticket, &budget);
        if (self->task == NULL) {
            return NULL;
        }
        if (self->float_mode != mode) {
            mode = self->float_mode;
            set_float_mode(mode);
        }
        start = nanoseconds();
        self->task(self->context, self->part, self->parts);
        self->took = since(start);
        atomic_store(&self->done, ticket);
        if (atomic_load(&self->caller_bed.asleep)) {
            rouse(&self->caller_bed, &self->done);
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

/* Keeps workers from the core of the caller, if there are enough others.  A system that wakes a
 * thread likes to put it where it was woken, most of all a virtual machine, in which an idle
 * core looks busy; and there it would only stop the caller. */
static void keep_away(weft_pool *pool)
{
    const int core = sched_getcpu();
    cpu_set_t mask;
    int i;
    if (pool->pin || core < 0 || core == pool->core || core >= CPU_SETSIZE
        || sched_getaffinity(0, sizeof mask, &mask) != 0) {
        return;
    }
    if (CPU_COUNT(&mask) > pool->started) {
        CPU_CLR((size_t)core, &mask);
    }
    for (i = 0; i < pool->started; ++i) {
        (void)pthread_setaffinity_np(pool->workers[i].thread, sizeof mask, &mask);
    }
    pool->core = core;
}
#else
static void pin(pthread_t thread, int n, int cores)
{
    (void)thread;
    (void)n;
    (void)cores;
}

static void keep_away(weft_pool *pool)
{
    (void)pool;
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
        pool->core = NO_CORE;
    }
    return parts;
}

/* Offers a part; returns whether its worker had to be woken. */
static int call(weft_worker *worker, int parts, weft_task task, void *context, unsigned long mode)
{
    worker->task = task;
    worker->context = context;
    worker->parts = parts;
    worker->float_mode = mode;
    atomic_store(&worker->ticket, atomic_load_explicit(&worker->ticket, memory_order_relaxed) + 1u);
    if (!atomic_load(&worker->worker_bed.asleep)) {
        return 0;
    }
    rouse(&worker->worker_bed, &worker->ticket);
    return 1;
}

/* Waits until a worker has done the part that it took. */
static void join(weft_worker *worker)
{
    const unsigned ticket = atomic_load_explicit(&worker->ticket, memory_order_relaxed);
    const unsigned before = atomic_load_explicit(&worker->done, memory_order_acquire);
    if (before != ticket && !spin(&worker->done, before, JOIN_SPIN, 0)) {
        sleep_while(&worker->caller_bed, &worker->done, before);
    }
}

/* Goes on with fewer threads for a while if forks have lost more than they gained. */
static void judge(weft_pool *pool, int parts, long gained)
{
    pool->credit += gained;
    if (pool->credit > MOST_CREDIT) {
        pool->credit = MOST_CREDIT;
    } else if (pool->credit < 0) {
        pool->limit = parts / 2;
        pool->rest = pool->credit > -MOST_REST / REST_FACTOR ? -pool->credit * REST_FACTOR
                                                             : MOST_REST;
        pool->rest_since = pool->end;
        pool->credit = 0;
    }
}

/* How many of so many threads to use, after some that did not pay. */
static int allowed(weft_pool *pool, int parts)
{
    if (parts > pool->limit && since(pool->rest_since) >= pool->rest) {
        pool->limit = pool->most;
    }
    return parts < pool->limit ? parts : pool->limit;
}

/* Runs the caller's part, then those that nobody has begun. */
static void run_parts(weft_pool *pool, int parts, weft_task task, void *context)
{
    int i;
    task(context, 0, parts);
    /* Those called last begin last. */
    for (i = parts - 2; i >= 0; --i) {
        weft_worker *const worker = &pool->workers[i];
        const unsigned ticket = atomic_load_explicit(&worker->ticket, memory_order_relaxed);
        worker->helps = (ticket & 1u) == 0u || !take(worker, ticket);
        if (!worker->helps) {
            task(context, i + 1, parts);
        }
    }
}

static void fork_and_join(weft_pool *pool, int parts, weft_task task, void *context)
{
    const unsigned long mode = float_mode();
    const long start = nanoseconds();
    /* Workers sleep after a pause, and are slow to begin: that says nothing about forks. */
    const int paused = between(pool->end, start) > MOST_SPIN;
    long called = start;
    long done;
    long most;
    long saved = 0;
    int woken = 0;
    int i;
    keep_away(pool);
    for (i = 0; i < parts - 1; ++i) {
        woken |= call(&pool->workers[i], parts, task, context, mode);
    }
    if (woken) {
        called = nanoseconds();
    }
    run_parts(pool, parts, task, context);
    done = nanoseconds();
    /* Longer than that a worker was not at work. */
    most = 2 * between(called, done) + LEAST_GAIN;
    for (i = 0; i < parts - 1; ++i) {
        weft_worker *const worker = &pool->workers[i];
        if (worker->helps) {
            join(worker);
            saved += worker->took < most ? worker->took : most;
        }
    }
    pool->end = nanoseconds();
    if (!woken || !paused) {
        judge(pool, parts, saved - between(start, called) - between(done, pool->end));
    }
}

/* Whether the caller gets the pool. */
static int obtain(weft_pool *pool)
{
    return !atomic_load_explicit(&pool->busy, memory_order_relaxed)
           && !atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire);
}

static void release(weft_pool *pool)
{
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
}

/* Runs a task for the caller who has the pool. */
static void run_task(weft_pool *pool, int parts, weft_task task, void *context)
{
    parts = allowed(pool, gather(pool, parts));
    if (parts < 2) {
        task(context, 0, 1);
    } else {
        fork_and_join(pool, parts, task, context);
    }
}

void weft_pool_run(void *memory, int parts, weft_task task, void *context)
{
    weft_pool *const pool = (weft_pool *)memory;
    if (parts < 2 || !obtain(pool)) {
        task(context, 0, 1);
        return;
    }
    run_task(pool, parts, task, context);
    release(pool);
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
    pool->started = 0;
    pool->limit = pool->most;
    pool->rest_since = 0;
    pool->rest = 0;
    pool->credit = MOST_CREDIT;
    pool->end = 0;
    pool->core = NO_CORE;
    for (i = 0; i < workers; ++i) {
        weft_worker *const worker = &pool->workers[i];
        atomic_store(&worker->ticket, 0u);
        atomic_store(&worker->done, 0u);
        make_bed(&worker->worker_bed);
        make_bed(&worker->caller_bed);
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
        (void)call(&pool->workers[i], 0, NULL, NULL, 0);
        (void)pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool);
}
