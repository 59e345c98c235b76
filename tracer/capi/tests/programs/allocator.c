/* Has its own traced allocator, which the tracer calls, too. */
#include "counted.h"
#include <stdatomic.h>
#include <stdlib.h>

static char memory[64 << 20];
static atomic_size_t used;

TRACED static void *give(size_t size) {
    size_t at = atomic_fetch_add(&used, (size + 31) & ~(size_t)15);
    return memory + at;
}

TRACED void *calloc(size_t count, size_t size) {
    return give(count * size);
}

TRACED static void of_program(int size) {
    COUNT(1);
    volatile char *text = calloc(1, size);
    text[0] = 1;
}

int main(void) {
    COUNT(0);
    for (int turn = 0; turn < 10000; turn++) {
        of_program(turn % 100);
    }
    print_counts();
    return 0;
}
