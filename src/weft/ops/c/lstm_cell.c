// The cell of an LSTM in 16-bit fixed point.

//@ cell
// Four gates, then tanh of the state; a number of 3 integer bits counts 2^-12.
long n, i, g;
int32_t a, near, x, rest, result, half, after, k, value[5];
int64_t wide;
const int32_t factors[7] = {25520, 19875, 12055, 4435, 600, 11, 0};
for (n = 0; n < $batch; ++n) {
    for (i = 0; i < $units; ++i) {
        after = value[0] = 0;
        for (g = $coupled; g < 5; ++g) {
            const int32_t is_tanh = g == 2 || g == 4;
            const int32_t bits = (g == 4 ? $bits : 3) + is_tanh;
            if (g == 4) {
                x = value[1] * in1[n * $units + i];
                after = (x + 16384 - (x < 0)) >> 15;
                x = ($coupled ? 32767 - value[1] : value[0]) * value[2];
                after += (x + ((int32_t)1 << (14 + $bits)) - (x < 0)) >> (15 + $bits);
                after = after < -32768 ? -32768 : after > 32767 ? 32767 : after;
                if ($clip > 0)
                    after = after < -$clip ? -$clip : after > $clip ? $clip : after;
                a = after;
            } else {
                a = in0[(n * $count + g - $coupled) * $units + i];
            }
            value[g] = a;
            a = a < 0 ? a : -a;
            near = (a & (((int32_t)1 << (13 - bits)) - 1)) - ((int32_t)1 << (13 - bits));
            x = near * ((int32_t)1 << bits) + 4096;
            rest = (x * x + 16384) >> 15;
            half = (rest * rest + 16384) >> 15;
            half = (half + 2 - (half < 0)) >> 2;
            half += (rest * x + 16384) >> 15;
            half = ((half * 10923 + 16384) >> 15) + rest;
            half = (half + 1 - (half < 0)) >> 1;
            result = 28918 + (((x + half) * 28918 + 16384) >> 15);
            result = result > 32767 ? 32767 : result;
            for (k = -2; k < bits && k < 5; ++k)
                if ((near - a) >> (15 - bits + k) & 1)
                    result = (result * factors[k + 2] + 16384) >> 15;
            if (bits > 5 && a < -((int32_t)1 << (20 - bits)))
                result = 0;
            if (a == 0)
                result = 32767;
            half = (result + 32768) >> 1;
            x = 23130 + ((half * -15420 + 16384) >> 15);
            for (k = 0; k < 3; ++k) {
                rest = (x * (8192 - ((half * x + 16384) >> 15)) + 16384) >> 15;
                rest = rest < -8192 ? -32768 : rest > 8191 ? 32767 : rest * 4;
                x += rest;
            }
            if (is_tanh) {
                x -= 8192;
                x = x > 8191 ? 32767 : x < -8192 ? -32768 : x * 4;
                value[g] = value[g] == 0 ? 0 : value[g] < 0 ? -x : x;
            } else {
                x = x > 16383 ? 32767 : x * 2;
                value[g] = value[g] == 0 ? 16384 : value[g] < 0 ? 32767 - x : x;
            }
        }
        wide = (int64_t)(int32_t)((uint32_t)(value[3] * value[4]) << $left);
        wide = (wide * $multiplier + 1073741824) >> 31;
        wide = (wide + (((int64_t)1 << $right) >> 1) - (wide < 0 && $right > 0)) >> $right;
        wide += $zero;
        out0[n * $units + i] = (int8_t)(wide < -128 ? -128 : wide > 127 ? 127 : wide);
        out1[n * $units + i] = (int16_t)after;
    }
}
