/*
 * What a core can do at most: multiply-adds from registers, and reads from memory.
 * WIDTH is the bytes of a vector.
 */
#pragma GCC diagnostic ignored "-Wpsabi"
typedef float lanes __attribute__((vector_size(WIDTH)));
typedef unsigned int words __attribute__((vector_size(WIDTH)));

/* Twelve independent chains: enough for two units of six cycles' latency, and they leave room
   for both factors in sixteen registers. */
void weft_multiply(long count, float factor, float *result)
{
    lanes m = {0}, b = {0};
    lanes a0 = {1}, a1 = {2}, a2 = {3}, a3 = {4}, a4 = {5}, a5 = {6};
    lanes a6 = {7}, a7 = {8}, a8 = {9}, a9 = {10}, a10 = {11}, a11 = {12};
    m += factor;
    b += 1.0f - factor;
    for (long i = 0; i < count; ++i) {
        a0 = a0 * m + b;
        a1 = a1 * m + b;
        a2 = a2 * m + b;
        a3 = a3 * m + b;
        a4 = a4 * m + b;
        a5 = a5 * m + b;
        a6 = a6 * m + b;
        a7 = a7 * m + b;
        a8 = a8 * m + b;
        a9 = a9 * m + b;
        a10 = a10 * m + b;
        a11 = a11 * m + b;
    }
    a0 = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;
    *result = a0[0] + a0[1];
}

/* Reads count vectors (a multiple of eight) again and again. */
void weft_read(const void *memory, long count, long times, unsigned int *result)
{
    words a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, a4 = {0}, a5 = {0}, a6 = {0}, a7 = {0};
    for (long time = 0; time < times; ++time) {
        const words *from = memory;
        for (const words *end = from + count; from != end; from += 8) {
            a0 ^= from[0];
            a1 ^= from[1];
            a2 ^= from[2];
            a3 ^= from[3];
            a4 ^= from[4];
            a5 ^= from[5];
            a6 ^= from[6];
            a7 ^= from[7];
        }
        /* No pass may be left out for giving what the one before gave. */
        __asm__ volatile("" : : : "memory");
    }
    a0 ^= a1 ^ a2 ^ a3 ^ a4 ^ a5 ^ a6 ^ a7;
    *result = a0[0] ^ a0[1];
}
