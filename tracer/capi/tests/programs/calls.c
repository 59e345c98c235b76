/* Calls functions in the manner that its argument names, and prints how often each was called. Both C and C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "counted.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static jmp_buf back;
static volatile int sink;

TRACED static int leaf(int x) {
    COUNT(1);
    return x + 1;
}

TRACED static int fib(int n) {
    COUNT(2);
    return n < 2 ? leaf(n) - 1 : fib(n - 1) + fib(n - 2);
}

TRACED static void jumps(int depth) {
    COUNT(3);
    if (depth == 0) {
        longjmp(back, 1);
    } else if (depth > 0) {
        jumps(depth - 1);
    }
    sink++;
}

TRACED static void around_jumps(void) {
    COUNT(4);
    for (volatile int turn = 0; turn < 100; turn++) {
        if (!setjmp(back)) {
            jumps(5);
        }
        leaf(turn);
    }
}

TRACED static void *work(void *turns) {
    COUNT(5);
    for (long turn = 0; turn < (long)turns; turn++) {
        fib(5);
    }
    return NULL;
}

TRACED static void threads(void) {
    COUNT(6);
    pthread_t ids[8];
    for (int number = 0; number < 8; number++) {
        pthread_create(&ids[number], NULL, work, (void *)(100L + number));
    }
    for (int number = 0; number < 8; number++) {
        pthread_join(ids[number], NULL);
    }
}

static ucontext_t of_main, of_coroutine;

TRACED static void coroutine(void) {
    COUNT(7);
    for (int turn = 0; turn < 50; turn++) {
        leaf(turn);
        swapcontext(&of_coroutine, &of_main);
    }
}

TRACED static int resume_coroutine(int turn) {
    COUNT(8);
    swapcontext(&of_main, &of_coroutine);
    return leaf(turn);
}

TRACED static void coroutines(void) {
    static char stack[256 * 1024];
    getcontext(&of_coroutine);
    of_coroutine.uc_stack.ss_sp = stack;
    of_coroutine.uc_stack.ss_size = sizeof stack;
    of_coroutine.uc_link = &of_main;
    makecontext(&of_coroutine, coroutine, 0);
    int sum = 0;
    for (int turn = 0; turn < 50; turn++) {
        sum += resume_coroutine(turn);
    }
    printf("sum %d\n", sum);
}

TRACED static void handler(int signal) {
    (void)signal;
    COUNT(9);
    sink = leaf(sink);
}

TRACED static void signals(void) {
    signal(SIGUSR1, handler);
    for (int turn = 0; turn < 200; turn++) {
        fib(4);
        raise(SIGUSR1);
    }
}

TRACED static void forks(void) {
    COUNT(10);
    fib(6);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* From here on, count only the child's own calls. */
        memset(counted, 0, sizeof counted);
        fib(7);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    fib(3);
}

/* A recursion of which the compiler makes neither a loop nor a call that needs no stack. */
TRACED static int deep(int depth) {
    volatile char frame[256];
    frame[0] = (char)depth;
    return depth ? deep(depth - 1) + frame[0] : 0;
}

TRACED static void overflows(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    /* A process that is killed in its first milliseconds leaves no names. */
    usleep(500 * 1000);
    printf("%d\n", deep(1 << 30));
}

TRACED static void plugins(const char *path) {
    for (int turn = 0; turn < 20; turn++) {
        void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*called)(int) = (int (*)(int))dlsym(plugin, "of_plugin");
        if (!called) {
            puts(dlerror());
            exit(1);
        }
        sink += called(turn) + leaf(turn);
        dlclose(plugin);
    }
}

__attribute__((constructor)) TRACED static void before_main(void) {
    COUNT(11);
}

TRACED static void at_exit(void) {
    COUNT(12);
    fib(3);
    print_counts();
}

int main(int count, char **arguments) {
    COUNT(0);
    const char *how = count > 1 ? arguments[1] : "plain";
    atexit(at_exit);
    if (!strcmp(how, "plain")) {
        printf("fib %d\n", fib(12));
    } else if (!strcmp(how, "threads")) {
        threads();
    } else if (!strcmp(how, "jumps")) {
        around_jumps();
    } else if (!strcmp(how, "coroutines")) {
        coroutines();
    } else if (!strcmp(how, "signals")) {
        signals();
    } else if (!strcmp(how, "forks")) {
        forks();
    } else if (!strcmp(how, "overflows")) {
        overflows();
    } else if (!strcmp(how, "plugins")) {
        plugins(arguments[2]);
    } else {
        return 2;
    }
    return 0;
}
