// What AMX's tiles need beside instructions, which rows of weft.loops.instructions call.

//@ tiles
#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
static int weft_tiles(void);
#if defined(WEFT_TILES)
/* Whether the process may use AMX's tiles, as the compiler was told. */
static int weft_tiles(void)
{
    return WEFT_TILES;
}
#elif defined(__GNUC__) && defined(__linux__) && defined(__x86_64__)
static int weft_tiles_given; /* written when the program or library is loaded, then only read */

/* Asks Linux for the tiles: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
static __attribute__((constructor, unused)) void ask_for_tiles(void)
{
    long long found;
    __asm__ volatile("syscall" : "=a"(found) : "0"(158LL), "D"(0x1023LL), "S"(18LL)
            : "rcx", "r11", "memory");
    weft_tiles_given = found == 0;
}

/* Whether the process may use AMX's tiles: a tile instruction would end it otherwise. */
static int weft_tiles(void)
{
    return weft_tiles_given;
}
#else
/* Nobody knows how to ask this system for AMX's tiles. */
static int weft_tiles(void)
{
    return 0;
}
#endif
#endif
