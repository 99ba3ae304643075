/* Vector table and reset handler for a Cortex-M that QEMU emulates. newlib's startup code follows;
 * its input and output go through semihosting (--specs=rdimon.specs).
 */
extern unsigned long __stack;
extern void _start(void);

/* Enables the floating-point unit, and Helium where the core has it. */
static void reset(void)
{
    volatile unsigned long *const access = (volatile unsigned long *)0xE000ED88ul;
    *access |= 0xFul << 20;
    __asm__ volatile("dsb\n\tisb");
    _start();
}

/* Ends the emulation with exit status 3. */
static void fault(void)
{
    const unsigned long report[2] = {0x20026ul, 3ul};
    register unsigned long operation __asm__("r0") = 0x20ul;
    register const unsigned long *argument __asm__("r1") = report;
    __asm__ volatile("bkpt 0xab" : "+r"(operation) : "r"(argument) : "memory");
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &__stack, (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault,
};
