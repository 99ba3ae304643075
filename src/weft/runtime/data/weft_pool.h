/* A pool of threads that networks made by Weft can run on.  One pool serves all networks of a
 * process; networks that were generated for one thread need none.
 *
 *     weft_pool *pool = weft_pool_new(4, 0);
 *     const weft_threads threads = {4, weft_pool_run, pool};
 *     code = net_run(input, output, arena, &threads);
 *     weft_pool_free(pool);
 */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef WEFT_THREADS_TYPE
#define WEFT_THREADS_TYPE
/* Threads that the caller lends to a network; a network is as happy with a pool of yours.
 *   threads: how many may be used at once, the caller's own among them
 *   run: calls task(context, part, n) once for each part from 0 to n - 1, for an n of its
 *     choice from 1 to parts, in any order and on any threads; returns when all are done
 *   pool: what run gets as its first argument
 */
typedef struct weft_threads {
    int threads;
    void (*run)(void *pool, int parts, void (*task)(void *context, int part, int parts),
                void *context);
    void *pool;
} weft_threads;
#endif

typedef struct weft_pool weft_pool;

/* A pool of at most so many threads, the caller's among them; a null pointer if there is no
 * memory for it.  Threads are started when they are first needed.  They wait for work by
 * spinning for a moment, then sleep.  They stay away from the core of the caller if there are
 * enough others; on Linux, their affinity follows the caller's.
 *   pin: whether each thread is bound to a core of its own, of those that this process may
 *     use; the caller's thread, which is left alone, should then be bound to the first of them
 */
weft_pool *weft_pool_new(int most, int pin);

/* Runs a task in parts: what `run` of weft_threads asks for.  Part 0 is the caller's and each
 * other part always the same thread's, or the caller's where that thread has not begun when the
 * caller's own part is done.  Workers yield to other threads between parts.  Where the pool is at
 * work already, for another thread or for the task that calls, the caller does all of the task by
 * itself.  Where other processes take the cores, so that parts do not pay, there are fewer of them
 * for a while.
 */
void weft_pool_run(void *pool, int parts, void (*task)(void *context, int part, int parts),
                   void *context);

/* Ends the threads of a pool that nobody uses any more; a null pointer is passed over. */
void weft_pool_free(weft_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
