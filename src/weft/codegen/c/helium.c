// Loops of Helium, the vector extension of Cortex-M55, that rows of weft.loops.instructions call:
// compilers hold only some of the sums that the registers have room for.

//@ sums
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
/* $doc */
static
__attribute__((naked, noinline, unused))
void weft_$name($type *out __attribute__((unused)), const int8_t *x __attribute__((unused)),
        const int8_t *weights __attribute__((unused)), $constants, int positions
        __attribute__((unused)), int groups __attribute__((unused)))
{
    __asm__(
        $enter
        $lines
        $leave
    );
}
#endif

//@ mve_copy
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* Copies bytes. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int count __attribute__((unused)))
{
    __asm__(
        $enter
        "wlstp.8 lr, r2, 2f\n"
        "1:\n\t"
        "vldrb.8 q0, [r1], #16\n\t"
        "vstrb.8 q0, [r0], #16\n\t"
        "letp lr, 1b\n"
        "2:\n\t"
        $leave
    );
}
#endif

//@ mve_fill
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* Fills memory with a byte. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), int count __attribute__((unused)),
        int value __attribute__((unused)))
{
    __asm__(
        $enter
        "vdup.8 q0, r2\n\t"
        "wlstp.8 lr, r1, 2f\n"
        "1:\n\t"
        "vstrb.8 q0, [r0], #16\n\t"
        "letp lr, 1b\n"
        "2:\n\t"
        $leave
    );
}
#endif

//@ mve_patch
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* Puts what windows read side by side. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int positions __attribute__((unused)))
{
    __asm__(
        $enter
        "movs r3, #$run\n\t"
        "vctp.8 r3\n\t"
        "mov lr, r2\n"
        "1:\n\t"
        "mov r3, r1\n\t"
        $rows
        "le lr, 1b\n\t"
        $leave
    );
}
#endif

//@ mve_planes
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* Channels that lie side by side, one after the other: eight at a time. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *planes __attribute__((unused)), const int8_t *image __attribute__((unused)),
        int rows __attribute__((unused)), int channels __attribute__((unused)))
{
    __asm__(
        $enter
        "movs r4, #0\n\t"
        "vidup.u16 q1, r4, #1\n\t"
        "movw r5, #$plane\n\t"
        "vmul.i16 q1, q1, r5\n\t"
        "movs r5, #1\n\t"
        "vadd.i16 q2, q1, r5\n\t"
        "vadd.i16 q3, q2, r5\n"
        "1:\n\t"
        "mov r6, r0\n\t"
        "mov r7, r1\n\t"
        "mov lr, r2\n\t"
        $group
        "2:\n\t"
        "mov r4, r7\n\t"
        "mov r5, r6\n\t"
        $row
        "le lr, 2b\n\t"
        $next
        "subs r3, #8\n\t"
        "bgt 1b\n\t"
        $leave
    );
}
#endif

//@ mve_depth
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
/* $doc */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *planes __attribute__((unused)),
        const int8_t *weights __attribute__((unused)), $constants, int channels
        __attribute__((unused)))
{
    __asm__(
        $enter
        $lines
        $leave
        ".p2align 2\n"
        $data
    );
}
#endif

//@ mve_add
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* Sums of bytes of different scales, requantized in integers. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *first __attribute__((unused)),
        const int8_t *second __attribute__((unused)), const int32_t *table __attribute__((unused)),
        const int32_t *numbers __attribute__((unused)), int positions __attribute__((unused)))
{
    __asm__(
        $enter
        "add r3, r3, #512\n\t"
        "ldrd r7, r8, [sp, #24]\n\t"
        "ldm r7, {r4-r7}\n\t"
        $count
        "1:\n\t"
        "dlstp.32 lr, r12\n"
        "2:\n\t"
        "vldrb.s32 q0, [r1], #4\n\t"
        "vldrb.s32 q1, [r2], #4\n\t"
        "vldrw.u32 q2, [r3, q1, uxtw #2]\n\t"
        "vmla.s32 q2, q0, r4\n\t"
        "vqrdmulh.s32 q2, q2, r5\n\t"
        $below
        "vadd.i32 q2, q2, r6\n\t"
        "vqshl.s32 q2, r7\n\t"
        "vrev32.8 q2, q2\n\t"
        "vstrb.32 q2, [r0], #4\n\t"
        "letp lr, 2b\n\t"
        $next
        "subs r8, #1\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif

//@ mve_pool
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* $doc */
static
__attribute__((naked, noinline, unused))
void weft_$name($type *out __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int channels __attribute__((unused)))
{
    __asm__(
        $enter
        "1:\n\t"
        "mov r4, r1\n\t"
        "vctp.$bits r2\n\t"
        $begin
        "movw r5, #$rows\n"
        "2:\n\t"
        "mov r3, r4\n\t"
        $row
        "subs r5, #1\n\t"
        "bne 2b\n\t"
        $end
        "bgt 1b\n\t"
        $leave
    );
}
#endif

//@ mve_add_f32
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
/* Sums of bytes of different scales, requantized in floats. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *first __attribute__((unused)),
        const int8_t *second __attribute__((unused)), const float *firsts __attribute__((unused)),
        const float *seconds __attribute__((unused)), const float *bounds __attribute__((unused)),
        const int32_t *zero __attribute__((unused)), int positions __attribute__((unused)))
{
    __asm__(
        $enter
        "ldrd r4, r7, [sp, #56]\n\t"
        "ldrd r5, r8, [sp, #64]\n\t"
        "ldr r5, [r5]\n\t"
        "add r3, r3, #512\n\t"
        "add r4, r4, #512\n\t"
        "ldrd r6, r7, [r7]\n\t"
        "vdup.32 q4, r6\n\t"
        "vmov s20, r7\n\t"
        $count
        "1:\n\t"
        "dlstp.32 lr, r12\n"
        "2:\n\t"
        "vldrb.s32 q0, [r1], #4\n\t"
        "vldrb.s32 q1, [r2], #4\n\t"
        "vldrw.u32 q2, [r3, q0, uxtw #2]\n\t"
        "vldrw.u32 q3, [r4, q1, uxtw #2]\n\t"
        "vadd.f32 q0, q2, q3\n\t"
        "vmaxnm.f32 q0, q0, q4\n\t"
        $below
        "vdiv.f32 s0, s0, s20\n\t"
        "vdiv.f32 s1, s1, s20\n\t"
        "vdiv.f32 s2, s2, s20\n\t"
        "vdiv.f32 s3, s3, s20\n\t"
        "vcvtn.s32.f32 q0, q0\n\t"
        "vqadd.s32 q0, q0, r5\n\t"
        "vqshl.s32 q0, q0, #24\n\t"
        "vrev32.8 q0, q0\n\t"
        "vstrb.32 q0, [r0], #4\n\t"
        "letp lr, 2b\n\t"
        $next
        "subs r8, #1\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif

//@ mve_lookup
#if defined(__GNUC__) && defined(__ARM_FEATURE_MVE)
/* Bytes that a table holds for bytes. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int8_t *x __attribute__((unused)),
        const int8_t *table __attribute__((unused)), int positions __attribute__((unused)))
{
    __asm__(
        $enter
        "mov r8, r3\n\t"
        "vmov.i8 q3, #0x80\n\t"
        $count
        "1:\n\t"
        "dlstp.8 lr, r12\n"
        "2:\n\t"
        "vldrb.8 q0, [r1], #16\n\t"
        "veor q1, q0, q3\n\t"
        "vldrb.u8 q2, [r2, q1]\n\t"
        "vstrb.8 q2, [r0], #16\n\t"
        "letp lr, 2b\n\t"
        $next
        "subs r8, #1\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif
