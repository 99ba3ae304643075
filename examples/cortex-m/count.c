/* Runs the network of a toolkit once on the golden input of its self-test, and prints the largest
 * score and the instructions that the run took. QEMU must run with `-icount shift=0`, where an
 * instruction takes 1 ns; SysTick then counts the 25 MHz clock of the board, 40 ns a tick.
 */
#include <stdio.h>

#include "digits.h"
#include "digits_golden.h"

#define INSTRUCTIONS_PER_TICK 40u

static float scores[10];
static unsigned char arena[DIGITS_ARENA_BYTES] __attribute__((aligned(DIGITS_ARENA_ALIGNMENT)));
static volatile unsigned *const systick = (volatile unsigned *)0xE000E010;

int main(void)
{
    unsigned begin, end;
    int code, digit, best = 0;
    systick[1] = 0xFFFFFFu; /* reload value: counts down from here */
    systick[2] = 0u;
    systick[0] = 5u; /* enabled, processor clock, no interrupt */
    begin = systick[2];
    code = digits_run(golden_input_0, scores, arena);
    end = systick[2];
    if (code != 0) {
        return 1;
    }
    for (digit = 1; digit < 10; ++digit) {
        best = scores[digit] > scores[best] ? digit : best;
    }
    printf("digit %d, %u instructions\n", best,
           ((begin - end) & 0xFFFFFFu) * INSTRUCTIONS_PER_TICK);
    return 0;
}
