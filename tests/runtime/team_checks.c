/* Checks of weft_team.c on GNU's OpenMP, each a program run: team_checks NAME.  See test_team.py.
 *
 * The first call of a thread never runs in a region, and the second does, if it can.
 */
#define _GNU_SOURCE
#include "weft_team.h"

#include <fenv.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 8
#define CALLERS 8
#define TEAM 2

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

void GOMP_parallel_start(void (*function)(void *), void *argument, unsigned threads);
void GOMP_parallel_end(void);

static int pause_all(int kind)
{
    return omp_pause_resource_all((omp_pause_resource_t)kind);
}

static int begun; /* regions */
static int few;   /* whether they get no threads */

static void start(void (*function)(void *), void *argument, unsigned threads)
{
    ++begun;
    GOMP_parallel_start(function, argument, few ? 1 : threads);
}

static const weft_openmp openmp = {
    start, GOMP_parallel_end, omp_get_max_threads, omp_get_num_threads, omp_get_thread_num,
    pause_all,
};

static weft_pool *adopted(int pausing)
{
    weft_pool *const pool = weft_pool_new(TEAM, 0);
    weft_openmp functions = openmp;
    functions.pause = pausing ? pause_all : NULL;
    omp_set_num_threads(TEAM);
    CHECK(weft_team_adopt(pool, &functions) == 1);
    return pool;
}

typedef struct job {
    atomic_int visits[MOST];
    int teams[MOST]; /* the threads of the region that each part found itself in */
    int upward; /* whether the second part rounds so */
    int parts;
    weft_pool *pool;
} job;

static void nap(long milliseconds)
{
    const struct timespec time = {0, milliseconds * 1000000};
    (void)nanosleep(&time, NULL);
}

static int rounds_upward(void)
{
    volatile double one = 1;
    volatile double little = 1e-20;
    return one + little > 1;
}

/* Work that is worth a fork. */
static void work_a_little(void)
{
    const double end = omp_get_wtime() + 2e-4;
    while (omp_get_wtime() < end) {
    }
}

/* The caller is not done before others have had the time for their parts. */
static void visit(void *context, int part, int parts)
{
    job *const it = (job *)context;
    int i;
    work_a_little();
    it->teams[part] = omp_get_num_threads();
    if (part == 0) {
        it->parts = parts;
        for (i = 0; i < 1000 && parts > 1 && atomic_load(&it->visits[1]) == 0; ++i) {
            nap(1);
        }
    } else {
        it->upward = rounds_upward();
    }
    (void)atomic_fetch_add(&it->visits[part], 1);
}

static void run_once(job *it)
{
    int i;
    for (i = 0; i < MOST; ++i) {
        atomic_store(&it->visits[i], 0);
    }
    it->parts = 0;
    weft_team_run(it->pool, TEAM, visit, it);
    CHECK(it->parts == 1 || it->parts == TEAM);
    for (i = 0; i < MOST; ++i) {
        CHECK(atomic_load(&it->visits[i]) == (i < it->parts));
    }
}

/* A call of three tasks; returns whether it ran in a region. */
static int call(job *it, int threads)
{
    const unsigned before = weft_team_calls();
    int i;
    weft_team_begin(threads);
    for (i = 0; i < 3; ++i) {
        run_once(it);
    }
    weft_team_end();
    CHECK(omp_get_num_threads() == 1);
    return weft_team_calls() != before;
}

/* Calls until one runs on both threads of a region.  On a busy machine the system may stop the
 * thread that should spin, and there are fewer parts for a while where they do not pay. */
static void call_in_region(job *it)
{
    int i;
    for (i = 0; i < 1000; ++i) {
#pragma omp parallel
        work_a_little();
        if (call(it, TEAM) && it->parts == TEAM && it->teams[1] == TEAM) {
            return;
        }
        nap(i < 10 ? 0 : 20);
    }
    CHECK(!"a region had two threads");
}

static void second_call(void)
{
    job it = {.pool = adopted(1)};
    CHECK(!call(&it, TEAM));
    CHECK(it.teams[0] == 1 && begun == 0);
    CHECK(call(&it, TEAM));
    CHECK(it.teams[0] == TEAM && begun == 1);
    call_in_region(&it);
    CHECK(it.teams[0] == TEAM);
    /* Outside of calls. */
    run_once(&it);
    CHECK(it.teams[0] == 1);
}

static void asleep(void)
{
    job it = {.pool = adopted(1)};
    call_in_region(&it);
    nap(300);
    CHECK(!call(&it, TEAM));
    call_in_region(&it);
}

static void other_number(void)
{
    job it = {.pool = adopted(1)};
    (void)call(&it, TEAM);
    CHECK(!call(&it, omp_get_num_procs() + 1));
    omp_set_num_threads(1);
    CHECK(!call(&it, TEAM));
    omp_set_num_threads(TEAM);
    CHECK(call(&it, TEAM));
}

/* The thread whose clock is read ends. */
static void other_team(void)
{
    job it = {.pool = adopted(1)};
    call_in_region(&it);
    CHECK(pause_all(1) == 0);
    call_in_region(&it);
}

static void fewer(void)
{
    job it = {.pool = adopted(1)};
    (void)call(&it, TEAM);
    few = 1;
    CHECK(call(&it, TEAM));
    CHECK(it.teams[0] == 1 && begun == 1);
    few = 0;
    call_in_region(&it);
}

static void without_tasks(void)
{
    job it = {.pool = adopted(1)};
    (void)call(&it, TEAM);
    weft_team_begin(TEAM);
    weft_team_end();
    CHECK(begun == 0);
    CHECK(call(&it, TEAM));
}

static void fork_inside(void *context, int part, int parts)
{
    job *const it = (job *)context;
    job own = {.pool = it->pool};
    (void)parts;
    run_once(&own);
    CHECK(own.parts == 1);
    atomic_store(&it->visits[part], 1);
}

static void nested(void)
{
    job it = {.pool = adopted(1)};
    (void)call(&it, TEAM);
    weft_team_begin(TEAM);
    weft_team_run(it.pool, TEAM, fork_inside, &it);
    CHECK(omp_get_num_threads() == TEAM);
    CHECK(atomic_load(&it.visits[0]) == 1 && atomic_load(&it.visits[1]) == 1);
    run_once(&it);
    weft_team_end();
    CHECK(omp_get_num_threads() == 1);
}

/* Parts round as the caller does; the threads of OpenMP as they did before. */
static void rounding(void)
{
    job it = {.pool = adopted(1)};
    int after = -1;
    call_in_region(&it);
    CHECK(!it.upward);
    CHECK(fesetround(FE_UPWARD) == 0);
    call_in_region(&it);
    CHECK(it.upward);
    CHECK(fesetround(FE_TONEAREST) == 0);
#pragma omp parallel
    {
        if (omp_get_thread_num() == 1) {
            after = rounds_upward();
        }
    }
    CHECK(after == 0);
}

static void *call_often(void *argument)
{
    job it = {.pool = (weft_pool *)argument};
    int i;
    omp_set_num_threads(TEAM);
    for (i = 0; i < 20; ++i) {
        (void)call(&it, TEAM);
    }
    return NULL;
}

static void many_callers(void)
{
    weft_pool *const pool = adopted(1);
    pthread_t callers[CALLERS];
    job it = {.pool = pool};
    int i;
    for (i = 0; i < CALLERS; ++i) {
        CHECK(pthread_create(&callers[i], NULL, call_often, pool) == 0);
    }
    for (i = 0; i < CALLERS; ++i) {
        CHECK(pthread_join(callers[i], NULL) == 0);
    }
    CHECK(weft_team_calls() > 0);
    /* All have given the pool back. */
    run_once(&it);
    CHECK(it.teams[0] == 1);
}

static void fork_after_use(int pausing)
{
    job it = {.pool = adopted(pausing)};
    pid_t child;
    int status = -1;
    int i;
    call_in_region(&it);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        (void)alarm(60); /* for a child that waits for threads it does not have */
        if (pausing) {
            call_in_region(&it);
        }
        begun = 0;
        for (i = 0; i < 3; ++i) {
            (void)call(&it, TEAM);
        }
        CHECK(pausing || begun == 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    call_in_region(&it);
}

static void forked(void)
{
    fork_after_use(1);
}

static void forked_without_pause(void)
{
    fork_after_use(0);
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {
    {"second_call", second_call},
    {"asleep", asleep},
    {"other_number", other_number},
    {"other_team", other_team},
    {"fewer", fewer},
    {"without_tasks", without_tasks},
    {"nested", nested},
    {"rounding", rounding},
    {"many_callers", many_callers},
    {"forked", forked},
    {"forked_without_pause", forked_without_pause},
};

int main(int count, char **arguments)
{
    size_t i;
    if (count > 1 && omp_get_num_procs() < TEAM) {
        puts("one core");
        return 77;
    }
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
