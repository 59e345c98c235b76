/* Measures a message of tracer_trace whose arguments are copied, beside one that is formatted at the call and snprintf. */
#include <stdint.h>
#include <stdio.h>
#include <tracer.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 41, CALLS = 1000 };

#include "measure.h"

#define MEASURE(rounds, ...)                          \
    do {                                              \
        double start = now();                         \
        for (int call = 0; call < CALLS; call++) {    \
            __VA_ARGS__;                              \
        }                                             \
        rounds[round] = (now() - start) / CALLS;      \
        usleep(2000);                                 \
    } while (0)

int main(void) {
    static double clocks[ROUNDS], copied[ROUNDS], formatted[ROUNDS], printed[ROUNDS];
    char text[256];
    uint64_t sum = 0;
    for (int warm = 0; warm < 2; warm++) {
        for (int round = 0; round < ROUNDS; round++) {
            MEASURE(clocks, sum += __rdtsc());
            MEASURE(copied, tracer_trace("call %d of %d took %f", call, CALLS, call * 0.5));
            MEASURE(formatted, tracer_trace("call %d of %d took %g", call, CALLS, call * 0.5));
            MEASURE(printed, sum += snprintf(text, sizeof text, "call %d of %d took %f", call, CALLS, call * 0.5));
        }
        tracer_flush();
    }
    printf("rdtsc %.1f ns, copied %.1f ns, formatted at the call (%%g) %.1f ns, snprintf alone %.1f ns%s\n", median(clocks),
           median(copied), median(formatted), median(printed), sum == 1 ? "" : " ");
    return 0;
}
