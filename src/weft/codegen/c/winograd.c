// Winograd's F(2x2, 3x3) of bytes by the Arm DSP extension, which rows of
// weft.loops.instructions call.

//@ winograd_in
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Winograd's transform of two tiles of 4x4 bytes, four channels at a time. */
static
__attribute__((naked, noinline, unused))
void weft_winograd_in(int32_t *made __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int fours __attribute__((unused)), int row __attribute__((unused)),
        int column __attribute__((unused)))
{
    __asm__(
        $enter
        /* 0: x, 4: made, 8: fours left, 12: step to the next row, 16: column, 20: point, 24: three
           rows, 32: columns */
        "add r7, r3, r3, lsl #1\n\t"
        "lsl r5, r2, #4\n\t"
        "ldr r4, [sp, #260]\n\t"
        "strd r1, r0, [sp]\n\t"
        "strd r2, r3, [sp, #8]\n\t"
        "strd r4, r5, [sp, #16]\n\t"
        "str r7, [sp, #24]\n"
        "1:\n\t"
        "ldr r1, [sp]\n\t"
        "ldrd r3, r4, [sp, #12]\n\t"
        "ldr r5, [sp, #24]\n\t"
        "add r6, sp, #32\n\t"
        ".rept 6\n\t"
        $column
        ".endr\n\t"
        "ldr r0, [sp, #4]\n\t"
        "ldr r5, [sp, #20]\n\t"
        $rows
        "ldrd r1, r0, [sp]\n\t"
        "ldr r2, [sp, #8]\n\t"
        "add r1, #4\n\t"
        "add r0, #16\n\t"
        "strd r1, r0, [sp]\n\t"
        "subs r2, #1\n\t"
        "str r2, [sp, #8]\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif

//@ winograd_2x4
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Two tiles of 2x2 outputs of Winograd's products, two channels at a time. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int32_t *tiles __attribute__((unused)),
        const int32_t *stream __attribute__((unused)), int pairs __attribute__((unused)),
        int column __attribute__((unused)), int row __attribute__((unused)))
{
    __asm__(
        $enter
        /* 0: tiles, 4: out, 8: pairs left, 12: step to the next column, 16: row, 20: stream behind
           weights, 24: the next point's sums, 32: sums */
        "strd r1, r0, [sp]\n\t"
        "ldrd r4, r5, [sp, #324]\n\t"
        "strd r3, r4, [sp, #8]\n\t"
        "str r5, [sp, #16]\n\t"
        "mov r1, r2\n"
        "1:\n\t"
        "ldr r0, [sp]\n\t"
        "add r6, sp, #32\n\t"
        "str r6, [sp, #24]\n"
        "2:\n\t"
        ".rept $points\n\t"
        $step
        ".endr\n\t"
        "add r7, sp, #288\n\t"
        "cmp r6, r7\n\t"
        "bne 2b\n\t"
        "str r1, [sp, #20]\n\t"
        $tiles
        "ldr r1, [sp, #20]\n\t"
        "ldrd r0, r3, [sp, #4]\n\t"
        "add r1, #32\n\t"
        "add r0, #2\n\t"
        "subs r3, #1\n\t"
        "strd r0, r3, [sp, #4]\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif
