/* The function whose calls are measured; this file alone is compiled with hooks. */
#include <stdint.h>

__attribute__((noinline)) uint64_t leaf(uint64_t n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}
