/* Measures a call with hooks, a call without, and two bare reads of the processor's counter, in one process. */
#include <stdint.h>
#include <stdio.h>
#include <x86intrin.h>

enum { ROUNDS = 41, CALLS = 200000 };

#include "measure.h"

uint64_t leaf(uint64_t n);

__attribute__((noinline)) static uint64_t plain(uint64_t n) {
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

int main(void) {
    static double clocks[ROUNDS], without[ROUNDS], with[ROUNDS];
    volatile uint64_t sink;
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int call = 0; call < CALLS; call++) {
            sum += __rdtsc();
            sum += __rdtsc();
        }
        clocks[round] = (now() - start) / CALLS;
        start = now();
        for (int call = 0; call < CALLS; call++) {
            sum = plain(sum);
        }
        without[round] = (now() - start) / CALLS;
        start = now();
        for (int call = 0; call < CALLS; call++) {
            sum = leaf(sum);
        }
        with[round] = (now() - start) / CALLS;
    }
    sink = sum;
    (void)sink;
    double clock = median(clocks), bare = median(without), hooked = median(with);
    printf("two rdtsc %.1f ns, a call %.1f ns, with hooks %.1f ns: %.2f times two rdtsc without the call\n", clock, bare,
           hooked, (hooked - bare) / clock);
    return 0;
}
