/* Passes and returns values in all registers that can hold them, and checks whether they arrive. */
#include "counted.h"
#include <stdarg.h>
#include <string.h>

typedef struct {
    long first, second;
} Pair;
typedef struct {
    double first, second;
} Doubles;
typedef float Wide __attribute__((vector_size(32)));

static int wrong;
#define CHECK(right) (wrong += !(right))

TRACED static long integers(long a, long b, long c, long d, long e, long f, long g) {
    COUNT(1);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g;
}

/* Ends with a jump to another function if the compiler optimizes. */
TRACED static long by_jump(long a, long b) {
    COUNT(8);
    return integers(b, a, 2, 3, 4, 5, 6);
}

TRACED static double doubles(double a, double b, double c, double d, double e, double f, double g, double h, double i) {
    COUNT(2);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

TRACED static Pair pair(long a) {
    COUNT(3);
    return (Pair){a, -a};
}

TRACED static Doubles two_doubles(double a) {
    COUNT(4);
    return (Doubles){a, -a};
}

TRACED static long double extended(long double a) {
    COUNT(5);
    return a * 3;
}

TRACED static double variable(int count, ...) {
    COUNT(6);
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int number = 0; number < count; number++) {
        sum += va_arg(list, double);
    }
    va_end(list);
    return sum;
}

__attribute__((noinline, target("avx"))) static Wide wide(Wide a, Wide b) {
    COUNT(7);
    return a * b;
}

__attribute__((target("avx"))) static void wide_values(int turn) {
    Wide a, b;
    for (int lane = 0; lane < 8; lane++) {
        a[lane] = (float)(turn + lane);
        b[lane] = (float)lane;
    }
    Wide product = wide(a, b);
    for (int lane = 0; lane < 8; lane++) {
        CHECK(product[lane] == (float)(turn + lane) * (float)lane);
    }
}

int main(void) {
    int has_avx = __builtin_cpu_supports("avx");
    for (int turn = 0; turn < 20000; turn++) {
        CHECK(integers(turn, 1, 2, 3, 4, 5, 6) == turn + 2 + 6 + 12 + 20 + 30 + 42);
        CHECK(by_jump(1, turn) == turn + 2 + 6 + 12 + 20 + 30 + 42);
        CHECK(doubles(turn, 1, 2, 3, 4, 5, 6, 7, 8) == turn + 2 + 6 + 12 + 20 + 30 + 42 + 56 + 72);
        Pair two = pair(turn);
        CHECK(two.first == turn && two.second == -turn);
        Doubles others = two_doubles(turn);
        CHECK(others.first == turn && others.second == -turn);
        CHECK(extended(turn) == 3.0L * turn);
        CHECK(variable(3, 1.5, (double)turn, 2.5) == 4 + turn);
        if (has_avx) {
            wide_values(turn);
        }
    }
    print_counts();
    printf(wrong ? "%d values are wrong\n" : "all as it was\n", wrong);
    return 0;
}
