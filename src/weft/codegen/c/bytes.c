// Loops of the Arm DSP extension that make bytes of sums, which rows of
// weft.loops.instructions call.

//@ bytes
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* $doc */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int32_t *patch __attribute__((unused)),
        const int32_t *stream __attribute__((unused)), const int32_t *sizes __attribute__((unused)))
{
    __asm__(
        $enter
        /* $places */
        $setup
        $fill
        "mov r1, r2\n"
        "2:\n\t"
        $begin
        $jump
        "3:\n\t"
        ".rept $unroll\n\t"
        $step
        ".endr\n\t"
        $again
        $end
        $store
        "cmp r6, r7\n\t"
        "bne 2b\n\t"
        $leave
    );
}
#endif

//@ add_i8
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Sums of bytes by a table and a shift by $shift, requantized with a shift by $right. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *x __attribute__((unused)),
        const int8_t *y __attribute__((unused)), const int32_t *table __attribute__((unused)),
        const int32_t *factors __attribute__((unused)), int count __attribute__((unused)))
{
    __asm__(
        $enter
        "ldrd r4, r12, [sp, #32]\n\t"
        "ldrd r4, r5, [r4]\n\t"
        "add r3, #512\n\t"
        "subs r12, #4\n\t"
        "blt 2f\n"
        "1:\n\t"
        "ldr lr, [r2], #4\n\t"
        $four
        "subs r12, #4\n\t"
        "bge 1b\n"
        "2:\n\t"
        "adds r12, #4\n\t"
        "beq 4f\n"
        "3:\n\t"
        "ldrsb r7, [r2], #1\n\t"
        $one
        "subs r12, #1\n\t"
        "bne 3b\n"
        "4:\n\t"
        $leave
    );
}
#endif

//@ patch
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* What $positions positions read of $rows rows, as pairs of 16 bits. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int32_t *patch __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int row __attribute__((unused)), int position __attribute__((unused)))
{
    __asm__(
        $enter
        $steps
        $leave
    );
}
#endif
