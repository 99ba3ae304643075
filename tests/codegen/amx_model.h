/* AMX's tiles in C, for machines without them: compile with -include amx_model.h.
 *
 * It stands in for the intrinsics of <immintrin.h> and does what the operations of LDTILECFG,
 * TILELOADD, TILESTORED, TILEZERO, TDPBF16PS and TILERELEASE say in the Intel 64 and IA-32
 * Architectures Software Developer's Manual, volume 2. Where an instruction would raise an
 * exception, and where a program ends with tiles that were not released, it says so and aborts.
 */
#ifndef AMX_MODEL_H
#define AMX_MODEL_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_BYTES = 64 };

typedef struct {
    int palette, rows[AMX_TILES], bytes[AMX_TILES];
    unsigned char data[AMX_TILES][AMX_ROWS][AMX_BYTES];
} amx_state;

/* Each thread has its own tiles. */
static __thread amx_state amx;
static int amx_holders; /* threads that have configured tiles */
static int amx_registered;

static void amx_must(int holds, const char *rule)
{
    if (!holds) {
        fprintf(stderr, "AMX: %s\n", rule);
        abort();
    }
}

static void amx_must_have(int tile)
{
    amx_must(amx.palette == 1, "no tiles are configured (#UD)");
    amx_must(tile >= 0 && tile < AMX_TILES && amx.rows[tile] > 0, "the tile is not configured (#UD)");
}

static void amx_end(void)
{
    amx_must(__atomic_load_n(&amx_holders, __ATOMIC_SEQ_CST) == 0, "the tiles were not released");
}

static inline void amx_loadconfig(const void *config)
{
    const unsigned char *const at = (const unsigned char *)config;
    if (!__atomic_exchange_n(&amx_registered, 1, __ATOMIC_SEQ_CST)) {
        atexit(amx_end);
    }
    __atomic_fetch_add(&amx_holders, amx.palette == 0, __ATOMIC_SEQ_CST);
    amx_must(at[0] == 1, "the palette is not 1 (#GP)");
    for (int k = 1; k < 64; ++k) {
        const int used = (k >= 16 && k < 32 && k % 2 == 0) || (k >= 48 && k < 56);
        amx_must(used || at[k] == 0, "a reserved byte is not 0 (#GP)");
    }
    memset(&amx, 0, sizeof amx);
    amx.palette = 1;
    for (int t = 0; t < AMX_TILES; ++t) {
        amx.rows[t] = at[48 + t];
        amx.bytes[t] = at[16 + 2 * t];
        amx_must(amx.rows[t] <= AMX_ROWS && amx.bytes[t] <= AMX_BYTES, "a tile is too large (#GP)");
        amx_must((amx.rows[t] == 0) == (amx.bytes[t] == 0), "a tile has rows or bytes only (#GP)");
    }
}

static inline void amx_release(void)
{
    __atomic_fetch_sub(&amx_holders, amx.palette == 1, __ATOMIC_SEQ_CST);
    memset(&amx, 0, sizeof amx);
}

static inline void amx_zero(int tile)
{
    amx_must_have(tile);
    memset(amx.data[tile], 0, sizeof amx.data[tile]);
}

static inline void amx_loadd(int tile, const void *base, long stride)
{
    amx_must_have(tile);
    memset(amx.data[tile], 0, sizeof amx.data[tile]);
    for (int row = 0; row < amx.rows[tile]; ++row) {
        memcpy(amx.data[tile][row], (const char *)base + row * stride, (size_t)amx.bytes[tile]);
    }
}

static inline void amx_stored(int tile, void *base, long stride)
{
    amx_must_have(tile);
    for (int row = 0; row < amx.rows[tile]; ++row) {
        memcpy((char *)base + row * stride, amx.data[tile][row], (size_t)amx.bytes[tile]);
    }
}

/* DAZ and FTZ: denormal numbers count as zero. */
static inline float amx_flushed(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

static inline float amx_bf16(const unsigned char *at)
{
    uint16_t half;
    uint32_t bits;
    float x;
    memcpy(&half, at, 2);
    bits = (uint32_t)half << 16;
    memcpy(&x, &bits, 4);
    return amx_flushed(x);
}

static inline void amx_dpbf16ps(int sums, int lhs, int rhs)
{
    amx_must_have(sums);
    amx_must_have(lhs);
    amx_must_have(rhs);
    amx_must(sums != lhs && sums != rhs && lhs != rhs, "tiles are not distinct (#UD)");
    amx_must(amx.bytes[sums] % 4 == 0 && amx.bytes[lhs] % 4 == 0, "parts of elements (#UD)");
    amx_must(amx.rows[sums] == amx.rows[lhs], "rows of sums and of the first factor (#UD)");
    amx_must(amx.bytes[sums] == amx.bytes[rhs], "columns of sums and of the second factor (#UD)");
    amx_must(amx.bytes[lhs] / 4 == amx.rows[rhs], "columns of one factor, rows of the other (#UD)");
    for (int m = 0; m < amx.rows[sums]; ++m) {
        float sum[AMX_BYTES / 2] = {0};
        for (int k = 0; k < amx.bytes[lhs] / 4; ++k) {
            for (int n = 0; n < amx.bytes[sums] / 2; ++n) {
                const float x = amx_bf16(&amx.data[lhs][m][4 * k + 2 * (n % 2)]);
                const float y = amx_bf16(&amx.data[rhs][k][2 * n]);
                sum[n] = amx_flushed(fmaf(x, y, sum[n]));
            }
        }
        for (int n = 0; n < amx.bytes[sums] / 4; ++n) {
            const float both = amx_flushed(sum[2 * n] + sum[2 * n + 1]);
            float old;
            memcpy(&old, &amx.data[sums][m][4 * n], 4);
            old = amx_flushed(amx_flushed(old) + both);
            memcpy(&amx.data[sums][m][4 * n], &old, 4);
        }
    }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) amx_loadconfig(config)
#define _tile_release() amx_release()
#define _tile_zero(tile) amx_zero(tile)
#define _tile_loadd(tile, base, stride) amx_loadd(tile, base, stride)
#define _tile_stored(tile, base, stride) amx_stored(tile, base, stride)
#define _tile_dpbf16ps(sums, lhs, rhs) amx_dpbf16ps(sums, lhs, rhs)

#endif
