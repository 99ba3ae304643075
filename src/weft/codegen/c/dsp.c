// Loops of the Arm DSP extension that rows of weft.loops.instructions call: compilers make
// neither their multiple loads nor their rotated extensions from C.

//@ loads
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* $doc */
static
__attribute__((naked, noinline, unused))
void weft_$name(int32_t *sums __attribute__((unused)), const int32_t *patch __attribute__((unused)),
        const int32_t *weights __attribute__((unused)),
        const int32_t *start __attribute__((unused)), int quads __attribute__((unused)),
        int channels __attribute__((unused)))
{
    __asm__(
        $enter
        /* 0: patch, 4: its end, 8: where a sum starts, 12: start, 16: sums, 20: bytes of a
           position's sums, 24: the end of the first's */
        "ldrd r4, r5, [sp, #64]\n\t"
        "movs r6, #$unroll\n\t"
        "udiv r7, r4, r6\n\t"
        "mls r7, r6, r7, r4\n\t"
        "rsb r8, r7, r6\n\t"
        "cmp r7, #0\n\t"
        "it eq\n\t"
        "moveq r8, #0\n\t"
        "movs r9, #$bytes\n\t"
        "adr r10, 3f\n\t"
        "mla r8, r8, r9, r10\n\t"
        "orr r8, r8, #1\n\t"
        "add r9, r1, r4, lsl #$shift\n\t"
        "lsl r5, r5, #2\n\t"
        "add r4, r0, r5\n\t"
        "strd r1, r9, [sp]\n\t"
        "strd r8, r3, [sp, #8]\n\t"
        "strd r0, r5, [sp, #16]\n\t"
        "str r4, [sp, #24]\n\t"
        "mov r1, r2\n"
        "2:\n\t"
        "ldrd r12, r6, [sp, #8]\n\t"
        "ldr r0, [sp]\n\t"
        $begin
        "str r6, [sp, #12]\n\t"
        $ready
        "bx r12\n\t"
        ".p2align 2\n"
        "3:\n\t"
        ".rept $unroll\n\t"
        $step
        ".endr\n\t"
        $again
        "bne 3b\n\t"
        "ldrd r6, r7, [sp, #16]\n\t"
        $end
        "str r6, [sp, #16]\n\t"
        "ldr r7, [sp, #24]\n\t"
        "cmp r6, r7\n\t"
        "bne 2b\n\t"
        $leave
    );
}
#endif

//@ depth
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Sums of $rows rows of 3 taps, 4 channels at a time, each with an input of its own. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int32_t *sums __attribute__((unused)), const int8_t *x __attribute__((unused)),
        const int32_t *weights __attribute__((unused)),
        const int32_t *start __attribute__((unused)), int channels __attribute__((unused)),
        int row __attribute__((unused)), int column __attribute__((unused)))
{
    __asm__(
        $enter
        "ldr r4, [sp, #36]\n\t"
        "ldrd r11, r10, [sp, #40]\n\t"
        "add r4, r0, r4, lsl #2\n\t"
        "str r4, [sp, #36]\n\t"
        "mov r12, r0\n\t"
        "mov r0, r1\n\t"
        "mov r1, r2\n\t"
        "mov lr, r3\n"
        "1:\n\t"
        "ldm lr!, {r2-r5}\n\t"
        $steps
        "adds r0, #4\n\t"
        "stm r12!, {r2-r5}\n\t"
        "ldr r6, [sp, #36]\n\t"
        "cmp r12, r6\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif

//@ spread
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Bytes as pairs of 16 bits, the even and the odd ones of each four. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int32_t *patch __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int bytes __attribute__((unused)))
{
    __asm__(
        $enter
        "subs r2, #16\n\t"
        "blt 2f\n"
        "1:\n\t"
        ".rept 4\n\t"
        "ldr r3, [r1], #4\n\t"
        "sxtb16 r4, r3\n\t"
        "sxtb16 r5, r3, ror #8\n\t"
        "strd r4, r5, [r0], #$bytes\n\t"
        ".endr\n\t"
        "subs r2, #16\n\t"
        "bge 1b\n"
        "2:\n\t"
        "adds r2, #12\n\t"
        "blt 4f\n"
        "3:\n\t"
        "ldr r3, [r1], #4\n\t"
        "sxtb16 r4, r3\n\t"
        "sxtb16 r5, r3, ror #8\n\t"
        "strd r4, r5, [r0], #$bytes\n\t"
        "subs r2, #4\n\t"
        "bge 3b\n"
        "4:\n\t"
        "adds r2, #4\n\t"
        "beq 6f\n\t"
        "ldrsb r4, [r1]\n\t"
        "uxth r4, r4\n\t"
        "movs r5, #0\n\t"
        "subs r2, #2\n\t"
        "blt 5f\n\t"
        "ldrsb r5, [r1, #1]\n\t"
        "uxth r5, r5\n\t"
        "beq 5f\n\t"
        "ldrsb r3, [r1, #2]\n\t"
        "orr r4, r4, r3, lsl #16\n"
        "5:\n\t"
        "strd r4, r5, [r0]\n"
        "6:\n\t"
        $leave
    );
}
#endif

//@ scale_f32
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && \
    defined(__ARM_FP) && (__ARM_FP & 4)
/* Sums times scales, rounded to nearest, halves to even, plus a zero point, as bytes. */
static
__attribute__((naked, noinline, unused))
void weft_scale_f32(int8_t *out __attribute__((unused)), const int32_t *sums __attribute__((unused)),
        const float *scales __attribute__((unused)), const int32_t *zero __attribute__((unused)),
        int count __attribute__((unused)))
{
    __asm__(
        $enter
        "ldr r12, [r3]\n\t"
        "ldr r3, [sp, #16]\n\t"
        "subs r3, #8\n\t"
        "blt 2f\n"
        "1:\n\t"
        "vldmia r1!, {s0-s7}\n\t"
        "vldmia r2!, {s8-s15}\n\t"
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n\t"
        "vcvt.f32.s32 s\\n, s\\n\n\t"
        ".endr\n\t"
        "vmul.f32 s0, s0, s8\n\t"
        "vmul.f32 s1, s1, s9\n\t"
        "vmul.f32 s2, s2, s10\n\t"
        "vmul.f32 s3, s3, s11\n\t"
        "vmul.f32 s4, s4, s12\n\t"
        "vmul.f32 s5, s5, s13\n\t"
        "vmul.f32 s6, s6, s14\n\t"
        "vmul.f32 s7, s7, s15\n\t"
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n\t"
        "vcvtr.s32.f32 s\\n, s\\n\n\t"
        ".endr\n\t"
        "vmov r4, r5, s0, s1\n\t"
        "vmov r6, r7, s2, s3\n\t"
        ".irp n, 4, 5, 6, 7\n\t"
        "qadd r\\n, r\\n, r12\n\t"
        "ssat r\\n, #8, r\\n\n\t"
        "strb r\\n, [r0], #1\n\t"
        ".endr\n\t"
        "vmov r4, r5, s4, s5\n\t"
        "vmov r6, r7, s6, s7\n\t"
        ".irp n, 4, 5, 6, 7\n\t"
        "qadd r\\n, r\\n, r12\n\t"
        "ssat r\\n, #8, r\\n\n\t"
        "strb r\\n, [r0], #1\n\t"
        ".endr\n\t"
        "subs r3, #8\n\t"
        "bge 1b\n"
        "2:\n\t"
        "adds r3, #8\n\t"
        "beq 4f\n"
        "3:\n\t"
        "vldmia r1!, {s0}\n\t"
        "vldmia r2!, {s4}\n\t"
        "vcvt.f32.s32 s0, s0\n\t"
        "vmul.f32 s0, s0, s4\n\t"
        "vcvtr.s32.f32 s0, s0\n\t"
        "vmov r4, s0\n\t"
        "qadd r4, r4, r12\n\t"
        "ssat r4, #8, r4\n\t"
        "strb r4, [r0], #1\n\t"
        "subs r3, #1\n\t"
        "bne 3b\n"
        "4:\n\t"
        $leave
    );
}
#endif

//@ scale_i32
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Sums times multipliers of 31 bits plus a term, shifted to the right, as bytes. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int32_t *sums __attribute__((unused)),
        const int32_t *factors __attribute__((unused)), int count __attribute__((unused)))
{
    __asm__(
        $enter
        "subs r3, #4\n\t"
        "blt 2f\n"
        "1:\n\t"
        ".rept 2\n\t"
        "ldrd r4, r5, [r1], #8\n\t"
        "ldm r2!, {r6-r9, r12, lr}\n\t"
        $first
        "smmlar r4, r4, r6, r7\n\t"
        "asr r4, r4, r8\n\t"
        "ssat r4, #8, r4\n\t"
        "strb r4, [r0], #1\n\t"
        $second
        "smmlar r5, r5, r9, r12\n\t"
        "asr r5, r5, lr\n\t"
        "ssat r5, #8, r5\n\t"
        "strb r5, [r0], #1\n\t"
        ".endr\n\t"
        "subs r3, #4\n\t"
        "bge 1b\n"
        "2:\n\t"
        "adds r3, #4\n\t"
        "beq 4f\n"
        "3:\n\t"
        "ldr r4, [r1], #4\n\t"
        "ldm r2!, {r6-r8}\n\t"
        $first
        "smmlar r4, r4, r6, r7\n\t"
        "asr r4, r4, r8\n\t"
        "ssat r4, #8, r4\n\t"
        "strb r4, [r0], #1\n\t"
        "subs r3, #1\n\t"
        "bne 3b\n"
        "4:\n\t"
        $leave
    );
}
#endif

//@ winograd_out
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Winograd's transform of sums of a tile to those of 2x2 outputs. */
static
__attribute__((noinline, unused))
void weft_winograd_out(int32_t *sums, const int32_t *made, int count)
{
    const int32_t *const end = made + count;
    const int step = 2 * count;
    for (; made != end; ++made, ++sums) {
        const int32_t *at = made;
        int32_t a = at[0], b = at[step], c = at[2 * step], d = at[3 * step];
        int32_t p = a + b + c, q = b - c - d, r, s;
        at += 4 * step;
        a = at[0], b = at[step], c = at[2 * step], d = at[3 * step];
        r = a + b + c, s = b - c - d;
        p += r, q += s;
        at += 4 * step;
        a = at[0], b = at[step], c = at[2 * step], d = at[3 * step];
        a = a + b + c, b = b - c - d;
        p += a, q += b, r -= a, s -= b;
        at += 4 * step;
        a = at[0], b = at[step], c = at[2 * step], d = at[3 * step];
        r -= a + b + c, s -= b - c - d;
        sums[0] = p >> 2;
        sums[count] = q >> 2;
        sums[2 * count] = r >> 2;
        sums[3 * count] = s >> 2;
    }
}
#endif
