/* Functions that count their calls, so that a test can compare: `main` prints the counts when the process ends. */
#ifndef COUNTED_H
#define COUNTED_H

#include <stdio.h>

#define NOT_TRACED __attribute__((no_instrument_function))
#define TRACED __attribute__((noinline))

enum { MAX_COUNTED = 64 };
static struct {
    const char *name;
    unsigned long calls;
} counted[MAX_COUNTED];

/* Counts a call of the function that calls this. `number` is its own. */
#define COUNT(number) count_call(number, __func__)

NOT_TRACED static inline void count_call(int number, const char *name) {
    __atomic_store_n(&counted[number].name, name, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counted[number].calls, 1, __ATOMIC_RELAXED);
}

/* Prints a line "called NAME COUNT" for each function that was called. */
NOT_TRACED static inline void print_counts(void) {
    for (int number = 0; number < MAX_COUNTED; number++) {
        if (counted[number].name) {
            printf("called %s %lu\n", counted[number].name, counted[number].calls);
        }
    }
    fflush(stdout);
}

#endif
