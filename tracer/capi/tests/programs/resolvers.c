/* Functions whose implementation is chosen while the program is loaded, before it has thread-locals; and constructors.
 * Compiled as a program, or with -DLIBRARY as a library and with -DUSER as the program that uses it. Prints the number
 * of calls of each function. */
#include <stdio.h>

int twice(int number);
int total(const int *numbers, int length);
int constructed(void);

#ifndef USER
/* Volatile, so that no compiler computes it instead of calling the constructors. */
static volatile int constructions;

static __attribute__((noinline)) int is_fast(void) { return 1; }
static int doubled(int number) { return number * 2; }
static int added(int number) { return number + number; }

/* The loader calls this. */
static __attribute__((used)) int (*choose(void))(int) { return is_fast() ? doubled : added; }
int twice(int number) __attribute__((ifunc("choose")));

__attribute__((target_clones("avx2", "default"), noinline)) int total(const int *numbers, int length) {
    int sum = 0;
    for (int at = 0; at < length; at++) sum += numbers[at];
    return sum;
}

static __attribute__((noinline)) void construct(void) { constructions++; }
static __attribute__((constructor)) void prepare(void) { construct(); }
int constructed(void) { return constructions; }
#endif

#ifndef LIBRARY
int main(void) {
    const int numbers[] = {1, 2, 3, 4};
    int sum = 0;
    for (int turn = 0; turn < 5; turn++) sum += twice(turn) + total(numbers, 4);
    printf("sum %d, constructed %d\n", sum, constructed());
    printf("called doubled 5\ncalled total 5\ncalled construct 1\ncalled prepare 1\ncalled main 1\n");
    return 0;
}
#endif
