/* Calls on the threads of OpenMP: see weft_team.h.  Needs Linux.
 *
 * The threads of a region are workers of a pool that has no others, the crew.  No other file needs
 * to know what workers are, so this one includes the pool.
 */
#include "weft_pool.c"

#include "weft_team.h"

#define PAUSE_SOFT 1 /* omp_pause_soft: ends the threads, keeps the settings */

static weft_openmp openmp;
static weft_pool *crew; /* a null pointer where OpenMP's threads are not used */
static weft_pool *own;  /* what calls run on otherwise */
static atomic_uint calls;
/* The clock of the processor time of the crew's first worker. */
static clockid_t first_clock;

/* Where this thread is.  Inside a task it is in no call: a task that forks does so alone. */
enum { NO_CALL, BEGUN, ON_OWN, IN_REGION };
static _Thread_local int stage;
static _Thread_local int wanted;

/* What this thread knows of its team: each thread that begins regions has one of its own. */
enum { NOTHING, NO_CLOCK, CLOCK };
static _Thread_local int known;
static _Thread_local clockid_t team_clock;

/* For how long a thread has run, or -1 where it has ended. */
static long ran(clockid_t clock)
{
    struct timespec time;
    return clock_gettime(clock, &time) == 0 ? time.tv_sec * 1000000000L + time.tv_nsec : -1;
}

/* Whether the team of this thread spins.  To learn its clock, the second call uses it in any
 * case, as does the next one after it has changed: a thread that calls once needs no team. */
static int spins(void)
{
    long before;
    if (known == NOTHING) {
        known = NO_CLOCK;
        return 0;
    }
    if (known == NO_CLOCK) {
        return 1;
    }
    before = ran(team_clock);
    return before < 0 || ran(team_clock) != before;
}

/* What threads do in a region; the caller's has its own way. */
static void attend(void *argument)
{
    const int number = openmp.number();
    (void)argument;
    if (number > 0) {
        const unsigned long mode = float_mode();
        if (number == 1) {
            (void)pthread_getcpuclockid(pthread_self(), &first_clock);
        }
        (void)work(&crew->workers[number - 1]);
        set_float_mode(mode);
    }
}

/* Nanoseconds that it took to begin the region. */
static long beginning;

/* Begins a region, whose threads wait for parts; returns whether there is one. */
static int assemble(int threads)
{
    const long start = nanoseconds();
    int i;
    crew->most = threads;
    if (allowed(crew, threads) < 2) {
        return 0;
    }
    for (i = 0; i < threads - 1; ++i) {
        crew->workers[i].first_ticket = atomic_load(&crew->workers[i].ticket);
    }
    openmp.start(attend, NULL, (unsigned)threads);
    /* They may be fewer. */
    crew->started = openmp.threads() - 1;
    crew->most = crew->started + 1;
    beginning = since(start);
    (void)atomic_fetch_add(&calls, 1u);
    return 1;
}

static void dismiss(void)
{
    const long start = nanoseconds();
    int i;
    for (i = 0; i < crew->started; ++i) {
        (void)call(&crew->workers[i], 0, NULL, NULL, 0);
    }
    openmp.end();
    if (crew->started > 0) {
        team_clock = first_clock;
        known = CLOCK;
    }
    crew->started = 0;
    crew->end = nanoseconds();
    judge(crew, crew->most, -beginning - between(start, crew->end));
}

void weft_team_begin(int threads)
{
    if (crew != NULL && threads <= crew->cores && threads == openmp.most() && spins()) {
        stage = BEGUN;
        wanted = threads;
    }
}

void weft_team_end(void)
{
    if (stage == IN_REGION) {
        dismiss();
    }
    if (stage > BEGUN) {
        release(own);
    }
    stage = NO_CALL;
}

void weft_team_run(void *memory, int parts, weft_task task, void *context)
{
    weft_pool *const pool = (weft_pool *)memory;
    int inside;
    if (parts < 2 || stage == NO_CALL || pool != own) {
        weft_pool_run(pool, parts, task, context);
        return;
    }
    if (stage == BEGUN) {
        if (!obtain(own)) {
            task(context, 0, 1);
            return;
        }
        stage = assemble(wanted) ? IN_REGION : ON_OWN;
    }
    inside = stage;
    stage = NO_CALL;
    run_task(inside == IN_REGION && crew->started > 0 ? crew : own, parts, task, context);
    stage = inside;
}

unsigned weft_team_calls(void)
{
    return atomic_load(&calls);
}

/* --- forks ----------------------------------------------------------------------------------- */

static int paused;

/* OpenMP would wait for its threads in the child, which has none of them: so it ends them. */
static void pause_openmp(void)
{
    paused = openmp.pause != NULL && openmp.pause(PAUSE_SOFT) == 0;
}

static void leave_openmp(void)
{
    if (!paused) {
        crew = NULL;
    }
}

int weft_team_adopt(weft_pool *pool, const weft_openmp *found)
{
    if (crew == NULL) {
        own = pool;
        openmp = *found;
        crew = weft_pool_new(pool->cores, 1);
        (void)pthread_atfork(pause_openmp, NULL, leave_openmp);
    }
    return crew != NULL;
}
