// Depthwise convolutions of bytes by the Arm DSP extension, which rows of
// weft.loops.instructions call.

//@ planes
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Bytes of four channels as planes of pairs of 16 bits, row by row two of them. */
static
__attribute__((naked, noinline, unused))
void weft_planes(int32_t *planes __attribute__((unused)), const int8_t *x __attribute__((unused)),
        int pairs __attribute__((unused)), int columns __attribute__((unused)),
        int plane __attribute__((unused)), int pair __attribute__((unused)),
        int rows __attribute__((unused)), int row __attribute__((unused)),
        int column __attribute__((unused)), int above __attribute__((unused)),
        int border __attribute__((unused)))
{
    __asm__(
        $enter
        /* 0: bytes of the border, 4: pairs left, 8: columns, 12: words from there to the next */
        "ldr r4, [sp, #76]\n\t"
        "sub r4, #128\n\t"
        "uxtb r4, r4\n\t"
        "orr r4, r4, r4, lsl #8\n\t"
        "orr r4, r4, r4, lsl #16\n\t"
        "strd r4, r2, [sp]\n\t"
        "ldrd r6, r5, [sp, #52]\n\t"
        "sub r5, r5, r3\n\t"
        "strd r3, r5, [sp, #8]\n\t"
        "lsl r6, r6, #2\n\t"
        "add r7, r6, r6, lsl #1\n\t"
        /* r12: a row of the image, lr: where it lies */
        "ldr r12, [sp, #72]\n\t"
        "rsb r12, r12, #0\n\t"
        "ldr r4, [sp, #64]\n\t"
        "mla lr, r12, r4, r1\n"
        "1:\n\t"
        "ldrd r8, r9, [sp, #60]\n\t"
        "ldr r3, [sp, #68]\n\t"
        "mov r1, lr\n\t"
        "add r2, lr, r9\n\t"
        "mov r4, r3\n\t"
        "cmp r12, r8\n\t"
        "itt hs\n\t"
        "movhs r1, sp\n\t"
        "movhs r3, #0\n\t"
        "add r12, #1\n\t"
        "cmp r12, r8\n\t"
        "itt hs\n\t"
        "movhs r2, sp\n\t"
        "movhs r4, #0\n\t"
        "add r12, #1\n\t"
        "add lr, lr, r9, lsl #1\n\t"
        "ldr r5, [sp, #8]\n\t"
        "tst r5, #1\n\t"
        "add r5, r0, r5, lsl #2\n\t"
        "bne 3f\n"
        "2:\n\t"
        $step
        "3:\n\t"
        $step
        "cmp r0, r5\n\t"
        "bne 2b\n\t"
        "ldr r10, [sp, #4]\n\t"
        "ldr r5, [sp, #12]\n\t"
        "add r0, r0, r5, lsl #2\n\t"
        "subs r10, #1\n\t"
        "str r10, [sp, #4]\n\t"
        "bne 1b\n\t"
        $leave
    );
}
#endif

//@ depth_s
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
/* Depthwise 3x3 with strides of $stride of planes of four channels. */
static
__attribute__((naked, noinline, unused))
void weft_$name(int8_t *out __attribute__((unused)), const int32_t *planes __attribute__((unused)),
        const int32_t *stream __attribute__((unused)), int columns __attribute__((unused)),
        int rows __attribute__((unused)), int pair __attribute__((unused)),
        int pairs __attribute__((unused)), int column __attribute__((unused)),
        int row __attribute__((unused)))
{
    __asm__(
        $enter
        /* 0: where a sum starts (4 times), 16: multiplier, term, shift, 28: out, 32: step to the
           second row (0 where there is none), 36: to the next column, 40: end of tiles, 44: of
           columns, 48: from there to the next pair, 52: of outputs, 56: rows left, 60: bytes of a
           pair's tiles, 64: of its columns, 68: stream, 72: plane, 76: out, 80: channels left,
           84: bytes of a pair, 88: of a plane */
        "ldrd r4, r5, [sp, #132]\n\t"
        "lsl r4, r4, #2\n\t"
        "mul r5, r4, r5\n\t"
        "strd r4, r5, [sp, #84]\n\t"
        "bic r6, r3, #$tail\n\t"
        "lsl r6, r6, #$shift\n\t"
        "lsl r7, r3, #$shift\n\t"
        "strd r6, r7, [sp, #60]\n\t"
        "sub r7, r4, r7\n\t"
        "ldrd r8, r9, [sp, #140]\n\t"
        "str r8, [sp, #36]\n\t"
        "mul r8, r3, r8\n\t"
        "rsb r8, r8, r9$twice\n\t"
        "strd r7, r8, [sp, #48]\n\t"
        "strd r2, r1, [sp, #68]\n\t"
        "movs r4, #4\n\t"
        "strd r0, r4, [sp, #76]\n"
        "4:\n\t"
        "ldrd lr, r12, [sp, #68]\n\t"
        "ldr r6, [lr], #4\n\t"
        "mov r7, r6\n\t"
        "mov r8, r6\n\t"
        "mov r9, r6\n\t"
        "stm sp, {r6-r9}\n\t"
        "ldm lr!, {r0, r2, r4, r6-r8}\n\t"
        "str lr, [sp, #68]\n\t"
        $weights
        "strd r6, r7, [sp, #16]\n\t"
        "ldr r11, [sp, #76]\n\t"
        "strd r8, r11, [sp, #24]\n\t"
        "ldr r6, [sp, #128]\n\t"
        "ldr r7, [sp, #144]\n\t"
        "cmp r6, #1\n\t"
        "it eq\n\t"
        "moveq r7, #0\n\t"
        "str r7, [sp, #32]\n\t"
        "ldr lr, [sp, #84]\n\t"
        "add lr, lr, r12\n"
        "5:\n\t"
        "str r6, [sp, #56]\n\t"
        "ldrd r6, r7, [sp, #60]\n\t"
        "adds r7, r12\n\t"
        "adds r6, r6, r12\n\t"
        "strd r6, r7, [sp, #40]\n\t"
        "cmp r6, r12\n\t"
        "beq 2f\n"
        "1:\n\t"
        $tile
        "ldr r7, [sp, #40]\n\t"
        "cmp r12, r7\n\t"
        "bne 1b\n"
        "2:\n\t"
        "ldr r7, [sp, #44]\n\t"
        "cmp r12, r7\n\t"
        "beq 3f\n\t"
        $last
        "b 2b\n"
        "3:\n\t"
        "ldrd r6, r7, [sp, #48]\n\t"
        "add r12, r6\n\t"
        "add lr, r6\n\t"
        "add r11, r7\n\t"
        "str r11, [sp, #28]\n\t"
        "ldr r6, [sp, #56]\n\t"
        $next
        "6:\n\t"
        "ldrd r12, r11, [sp, #72]\n\t"
        "ldr r6, [sp, #88]\n\t"
        "add r12, r6\n\t"
        "add r11, #1\n\t"
        "strd r12, r11, [sp, #72]\n\t"
        "ldr r6, [sp, #80]\n\t"
        "subs r6, #1\n\t"
        "str r6, [sp, #80]\n\t"
        "bne 4b\n\t"
        $leave
    );
}
#endif
