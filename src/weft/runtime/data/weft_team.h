/* Calls that run on the threads of a program's OpenMP instead of those of a pool.
 *
 * OpenMP's threads spin for milliseconds after each region, on the cores that a pool's threads
 * want.  So a call that finds them spinning begins a region, in which they serve as the pool's
 * workers until the call ends.  Others run on the pool's own threads, which sleep sooner.
 */
#ifndef WEFT_TEAM_H
#define WEFT_TEAM_H

#include "weft_pool.h"

/* Functions of OpenMP: GOMP_parallel_start, GOMP_parallel_end, omp_get_max_threads,
 * omp_get_num_threads, omp_get_thread_num, and omp_pause_resource_all or a null pointer. */
typedef struct weft_openmp {
    void (*start)(void (*function)(void *argument), void *argument, unsigned threads);
    void (*end)(void);
    int (*most)(void);
    int (*threads)(void);
    int (*number)(void);
    int (*pause)(int kind);
} weft_openmp;

/* From now on, calls that would run on a pool may run on OpenMP's threads, too.  Before a process
 * forks, OpenMP's threads end; they start again when they are needed.  There is one such pool and
 * one OpenMP in a process: the first.  Returns whether there was memory. */
int weft_team_adopt(weft_pool *pool, const weft_openmp *openmp);

/* Begins a call of this thread that uses up to so many threads.  They are OpenMP's if that is
 * their number in this thread's regions, and if they spin. */
void weft_team_begin(int threads);

/* Ends the call. */
void weft_team_end(void);

/* What `run` of weft_threads asks for, in a call or outside of calls, for a weft_pool.  A call on
 * OpenMP's threads has the pool from its first task to its end. */
void weft_team_run(void *pool, int parts, void (*task)(void *context, int part, int parts),
                   void *context);

/* How many calls ran on OpenMP's threads. */
unsigned weft_team_calls(void);

#endif
