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
        // Newton's division: x of 2 integer bits is 1 / half, from 48/17 - 32/17 half on.
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
