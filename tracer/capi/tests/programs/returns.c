/* Functions whose arguments and results are in every kind of register, called in every manner in which a changed
   return address could be noticed. Prints the computed values, and the counts of `counted.h`. */
#define _GNU_SOURCE
#include "counted.h"
#include <complex.h>
#include <execinfo.h>
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

static volatile long sink;

TRACED static long integers(long a, long b, long c, long d, long e, long f, long g) {
    COUNT(1);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g;
}

TRACED static double doubles(double a, double b, double c, double d, double e, double f, double g, double h) {
    COUNT(2);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

TRACED static long double extended(long double a, long double b) {
    COUNT(3);
    return a / b;
}

TRACED static double complex complexes(double complex a, double complex b) {
    COUNT(4);
    return a * b;
}

TRACED static long double complex extended_complexes(long double complex a) {
    COUNT(5);
    return a * a;
}

struct mixed {
    double real;
    long whole;
};

TRACED static struct mixed structures(struct mixed a) {
    COUNT(6);
    return (struct mixed){a.real / 3, a.whole * 3};
}

TRACED static __int128 wide(__int128 a) {
    COUNT(7);
    return a * a;
}

TRACED static double variadic(int count, ...) {
    COUNT(8);
    va_list list;
    va_start(list, count);
    double sum = 0;
    for (int number = 0; number < count; number++) {
        sum += va_arg(list, double);
    }
    va_end(list);
    return sum;
}

__attribute__((target("avx"))) TRACED static __m256d vectors(__m256d a, __m256d b) {
    COUNT(9);
    return _mm256_add_pd(a, b);
}

__attribute__((target("avx"))) NOT_TRACED static double sum_of_vectors(void) {
    double parts[4];
    _mm256_storeu_pd(parts, vectors(_mm256_set_pd(1, 2, 3, 4), _mm256_set_pd(50, 60, 70, 80)));
    return parts[0] + 10 * parts[1] + 100 * parts[2] + 1000 * parts[3];
}

__attribute__((target("avx512f"))) TRACED static __m512i wide_vectors(__m512i a, __m512i b) {
    COUNT(10);
    return _mm512_add_epi64(a, b);
}

__attribute__((target("avx512f"))) NOT_TRACED static long sum_of_wide_vectors(void) {
    long parts[8], sum = 0;
    _mm512_storeu_si512(parts, wide_vectors(_mm512_set_epi64(1, 2, 3, 4, 5, 6, 7, 8), _mm512_set1_epi64(9)));
    for (int part = 0; part < 8; part++) {
        sum = 10 * sum + parts[part];
    }
    return sum;
}

TRACED static long realigned(long x) {
    COUNT(11);
    char aligned[64] __attribute__((aligned(64)));
    memset(aligned, (int)x, sizeof aligned);
    sink = aligned[63];
    return (uintptr_t)aligned % 64 + sink;
}

TRACED static long sized(long x) {
    COUNT(12);
    volatile char *memory = __builtin_alloca((size_t)x);
    memory[x - 1] = 7;
    return memory[x - 1] + integers(x, 1, 1, 1, 1, 1, 1);
}

static void values(void) {
    printf("%ld %.3f\n", integers(1, 2, 3, 4, 5, 6, 7), doubles(1, 2, 3, 4, 5, 6, 7, 8));
    printf("%.12Lf %.3f\n", extended(1, 3), creal(complexes(1 + 2 * I, 3 - 4 * I)));
    printf("%.12Lf\n", creall(extended_complexes(1.5L + 2 * I)));
    struct mixed mixed = structures((struct mixed){1, 2});
    printf("%.6f %ld %ld\n", mixed.real, mixed.whole, (long)(wide(1L << 40) >> 64));
    printf("%.3f\n", variadic(10, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0));
    printf("%ld %ld\n", realigned(5), sized(1000));
    if (__builtin_cpu_supports("avx")) {
        printf("%.3f\n", sum_of_vectors());
    }
    if (__builtin_cpu_supports("avx512f")) {
        printf("%ld\n", sum_of_wide_vectors());
    }
}

/* Each ends with a call of the other one; at `-O2` that is a jump. */
TRACED static long odd(long n);

TRACED static long even(long n) {
    COUNT(13);
    return n == 0 ? 0 : odd(n - 1);
}

TRACED static long odd(long n) {
    COUNT(14);
    return n == 0 ? 1 : even(n - 1);
}

/* Calls itself more often than returns can be awaited. */
TRACED static long deep(long n) {
    COUNT(15);
    long below = n == 0 ? -1 : deep(n - 1);
    sink = below;
    return below + 1;
}

int main(int count, char **arguments);

/* Returns whether a backtrace through `n` more calls reaches `main`. */
TRACED static int reaches_main(int n) {
    COUNT(16);
    if (n > 0) {
        int reached = reaches_main(n - 1);
        sink = reached;
        return reached;
    }
    void *found[256];
    int frames = backtrace(found, 256), reached = 0;
    for (int frame = 0; frame < frames; frame++) {
        void *in_function = (char *)found[frame] - 1;
        reached += in_function > (void *)main && _Unwind_FindEnclosingFunction(in_function) == (void *)main;
    }
    return reached;
}

/* A coroutine whose stack is a part of the stack of the thread. Functions of both are entered and left in turns. */
static ucontext_t of_main, of_coroutine;

TRACED static long yields(long n) {
    COUNT(17);
    swapcontext(&of_coroutine, &of_main);
    return n + sink;
}

static long of_yields;

NOT_TRACED static void coroutine(void) {
    for (long turn = 0;; turn++) {
        of_yields += yields(turn);
    }
}

TRACED static long resumes(long n) {
    COUNT(18);
    swapcontext(&of_main, &of_coroutine);
    return n;
}

TRACED static long resumes_deeper(long n) {
    COUNT(19);
    return integers(n, 0, 0, 0, 0, 0, 0) + resumes(n) + integers(0, n, 0, 0, 0, 0, 0);
}

NOT_TRACED static void coroutines(void) {
    char stack[1 << 16];
    getcontext(&of_coroutine);
    of_coroutine.uc_stack.ss_sp = stack;
    of_coroutine.uc_stack.ss_size = sizeof stack;
    makecontext(&of_coroutine, coroutine, 0);
    long sum = 0;
    for (long turn = 0; turn < 100; turn++) {
        sum += turn % 3 ? resumes(turn) : resumes_deeper(turn);
    }
    printf("%ld %ld\n", sum, of_yields);
}

/* Signals that come while functions are entered and left, and whose handlers enter others. */
static volatile sig_atomic_t handled;

TRACED static long in_handler(long n) {
    COUNT(20);
    return n + 1;
}

TRACED static void handle(int signal) {
    COUNT(21);
    sink = in_handler(signal);
    handled++;
}

NOT_TRACED static void signals(int flags) {
    static char stack[1 << 16];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART | flags};
    sigaction(SIGALRM, &action, NULL);
    handled = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 50}, {0, 50}}, NULL);
    long sum = 0, wanted = 0;
    for (long turn = 0; handled < 500; turn++) {
        sum += integers(turn, 1, 2, 3, 4, 5, 6);
        wanted += turn + 2 + 6 + 12 + 20 + 30 + 42;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    printf("sums %s\n", sum == wanted ? "equal" : "differ");
}

/* Jumps from a handler that may have interrupted a hook. */
static sigjmp_buf back;

TRACED static void jump(int signal) {
    COUNT(22);
    sink = signal;
    siglongjmp(back, 1);
}

NOT_TRACED static void jumps(void) {
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &action, NULL);
    volatile long jumped = 0;
    if (sigsetjmp(back, 1)) {
        jumped++;
    }
    if (jumped < 300) {
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 100 + jumped % 50}}, NULL);
        for (;;) {
            sink = integers(deep(3), 1, 2, 3, 4, 5, 6);
        }
    }
    printf("%ld jumps, %ld after them\n", jumped, deep(10));
}

TRACED static int in_child(void) {
    COUNT(23);
    fflush(stdout);
    pid_t child = fork();
    int status = 0;
    if (child != 0) {
        waitpid(child, &status, 0);
    }
    return child == 0 ? -1 : WEXITSTATUS(status);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    if (!strcmp(how, "values")) {
        values();
    } else if (!strcmp(how, "jumped-to")) {
        printf("%ld\n", even(100000));
    } else if (!strcmp(how, "deep")) {
        printf("%ld %ld\n", deep(50000), deep(100));
    } else if (!strcmp(how, "backtraces")) {
        printf("%d %d\n", reaches_main(0), reaches_main(20));
    } else if (!strcmp(how, "coroutines")) {
        coroutines();
    } else if (!strcmp(how, "signals")) {
        signals(0);
        signals(SA_ONSTACK);
        return 0;
    } else if (!strcmp(how, "jumps")) {
        jumps();
        return 0;
    } else if (!strcmp(how, "children")) {
        int status = in_child();
        if (status < 0) {
            _exit((int)deep(42));
        }
        printf("the child has computed %d\n", status);
    }
    print_counts();
    return 0;
}
