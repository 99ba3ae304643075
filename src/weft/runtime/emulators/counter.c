/* Counts the instructions that QEMU executes between two functions, by function. Uses version 1 of
 * QEMU's plugin interface, declared here as QEMU's packages do not contain its header.
 *
 * Arguments: functions=FILE, with a line `START END` in hexadecimal for each function, ascending;
 * begin=ADDRESS and end=ADDRESS of the functions that begin and end a run; counts=FILE, which gets
 * a line for each run: the count outside all functions, then one count for each function.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated)(uint64_t id, struct qemu_plugin_tb *block);
typedef void (*executed)(unsigned cpu, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated callback);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *instruction, int operation,
                                                void *counter, uint64_t number);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, executed callback,
                                            int registers, void *data);

#define VISIBLE __attribute__((visibility("default")))
#define MOST 65536

VISIBLE int qemu_plugin_version = 1;

/* Place 0 stands for all that lies in no function. */
static uint64_t first[MOST], past[MOST], count[MOST], before[MOST];
static size_t functions = 1;
static uint64_t begin_at, end_at;
static FILE *counts;

static size_t function_of(uint64_t address)
{
    size_t low = 1, high = functions;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (past[middle] <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < functions && first[low] <= address ? low : 0;
}

static void begin(unsigned cpu, void *data)
{
    (void)cpu;
    (void)data;
    memcpy(before, count, sizeof before);
}

static void end(unsigned cpu, void *data)
{
    size_t i;
    (void)cpu;
    (void)data;
    for (i = 0; i < functions; ++i) {
        fprintf(counts, "%llu ", (unsigned long long)(count[i] - before[i]));
    }
    fprintf(counts, "\n");
    fflush(counts);
}

static void instrument(uint64_t id, struct qemu_plugin_tb *block)
{
    const size_t size = qemu_plugin_tb_n_insns(block);
    size_t i;
    (void)id;
    for (i = 0; i < size; ++i) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        const uint64_t address = qemu_plugin_insn_vaddr(instruction);
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, &count[function_of(address)], 1);
        if (address == begin_at || address == end_at) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, address == begin_at ? begin : end, 0,
                                                   NULL);
        }
    }
}

static int read_functions(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long long low, high;
    if (file == NULL) {
        return -1;
    }
    while (functions < MOST && fscanf(file, "%llx %llx", &low, &high) == 2) {
        first[functions] = low;
        past[functions++] = high;
    }
    return fclose(file);
}

VISIBLE int qemu_plugin_install(uint64_t id, const void *machine, int argc, char **argv)
{
    int i, wrong = 0;
    (void)machine;
    for (i = 0; i < argc; ++i) {
        const char *value = strchr(argv[i], '=');
        value = value == NULL ? "" : value + 1;
        switch (argv[i][0]) {
        case 'f': wrong |= read_functions(value); break;
        case 'b': begin_at = strtoull(value, NULL, 16); break;
        case 'e': end_at = strtoull(value, NULL, 16); break;
        case 'c': counts = fopen(value, "w"); break;
        default: wrong = -1;
        }
    }
    if (wrong != 0 || counts == NULL) {
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, instrument);
    return 0;
}
