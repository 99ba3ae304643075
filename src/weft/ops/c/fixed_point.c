// Layers in fixed point.

//@ softmax
// A number of 0 integer bits counts 2^-31, one of 2 counts 2^-29; the sum of 12 counts 2^-19.
long o, i, k, first;
int32_t most, headroom, shift, n;
uint32_t sum;
int64_t half, x, error, share;
for (o = 0; o < $outer; ++o) {
    for (i = 0; i < $inner; ++i) {
        first = o * $extent * $inner + i;
        most = in0[first];
        for (k = 1; k < $extent; ++k)
            most = in0[first + k * $inner] > most ? in0[first + k * $inner] : most;
        sum = 0;
        for (k = 0; k < $extent; ++k)
            sum += ((uint32_t)in1[most - in0[first + k * $inner]] + 2048u) >> 12;
        for (headroom = 0; headroom < 31 && sum < 2147483648u; ++headroom)
            sum <<= 1;
        /* Newton's division: x of 2 integer bits is 1 / half, from 48/17 - 32/17 half on. */
        half = sum >> 1;
        x = 1515870810 + ((half * -1010580540 + 1073741824) >> 31);
        for (n = 0; n < 3; ++n) {
            error = 536870912 - ((half * x + 1073741824) >> 31);
            x += ((x * error + 1073741824) >> 31) * 4;
        }
        x = x < 1073741824 ? x * 2 : 2147483647;
        shift = 35 - headroom;
        for (k = 0; k < $extent; ++k) {
            share = (x * in1[most - in0[first + k * $inner]] + 1073741824) >> 31;
            share = (share + ((int64_t)1 << (shift - 1))) >> shift;
            out0[first + k * $inner] = ($type)((share < 255 ? share : 255) + $low);
        }
    }
}

//@ softmax16
// Differences count 10/65535; exponentials and the reciprocal of their sum 1/32768.
long o, i, k, first;
int32_t most, at, value, share, right;
int64_t sum, x;
for (o = 0; o < $outer; ++o) {
    for (i = 0; i < $inner; ++i) {
        first = o * $extent * $inner + i;
        most = in0[first];
        for (k = 1; k < $extent; ++k)
            most = in0[first + k * $inner] > most ? in0[first + k * $inner] : most;
        sum = 0;
        for (k = 0; k < $extent; ++k) {
            x = ((int64_t)(int32_t)((uint32_t)(in0[first + k * $inner] - most) << $left)
                * $multiplier + 1073741824) >> 31;
            x = (x + (((int64_t)1 << $right) >> 1) - (x < 0 && $right > 0)) >> $right;
            x += 32767;
            at = x < -32768 ? -32768 : x > 32767 ? 32767 : (int32_t)x;
            value = in1[256 + (at >> 7)];
            value += ((in1[257 + (at >> 7)] - value) * (at & 127) + 64) >> 7;
            out0[first + k * $inner] = (int16_t)value;
            sum += value;
        }
        for (right = 0; right < 30 && sum >> (right + 1) > 0; ++right)
            ;
        x = (((sum << (30 - right)) + 8192) >> 14) - 98304;
        at = x < -32768 ? -32768 : x > 32767 ? 32767 : (int32_t)x;
        share = in2[256 + (at >> 7)];
        share += ((in2[257 + (at >> 7)] - share) * (at & 127) + 64) >> 7;
        for (k = 0; k < $extent; ++k) {
            x = (int64_t)out0[first + k * $inner] * share + (((int64_t)1 << right) >> 1);
            x >>= right;
            out0[first + k * $inner] = (int16_t)(x < 0 ? 0 : x > 32767 ? 32767 : x);
        }
    }
}
