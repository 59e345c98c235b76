/* Calls functions that take long and functions that do not, in the manner that its argument names, and prints how
 * often each of the long ones was called. */
#define _GNU_SOURCE
#include "counted.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <tracer.h>
#include <unistd.h>

static volatile int sink;

NOT_TRACED static void wait_a_while(void) {
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
}

TRACED static int quick(int x) {
    return x ? quick(x - 1) + 1 : sink;
}

TRACED static void slow(void) {
    COUNT(1);
    quick(3);
    wait_a_while();
    quick(3);
}

TRACED static void slow_by_what_it_calls(int depth) {
    COUNT(2);
    for (int turn = 0; turn < 100; turn++) {
        sink += quick(10);
    }
    if (depth) {
        slow_by_what_it_calls(depth - 1);
    } else {
        slow();
    }
}

TRACED static void *work(void *turns) {
    COUNT(3);
    for (long turn = 0; turn < (long)turns; turn++) {
        slow_by_what_it_calls((int)turn);
    }
    return NULL;
}

/* More calls than can be held back. */
TRACED static void deep(int depth) {
    COUNT(4);
    if (depth) {
        deep(depth - 1);
    } else {
        wait_a_while();
    }
}

TRACED static void says(int number) {
    tracer_trace("said %d", number);
}

static __thread unsigned state;

/* Waits for 0 to about 3 microseconds, and sometimes longer. */
NOT_TRACED static void wait_a_little(void) {
    state = state * 1664525 + 1013904223;
    for (volatile unsigned turn = state >> 20; turn > (state >> 31 ? 4000u : 0u); turn--) {
    }
}

TRACED static void level_3(void) {
    wait_a_little();
}

TRACED static void level_2(void) {
    wait_a_little();
    level_3();
    level_3();
}

TRACED static void level_1(void) {
    for (int turn = 0; turn < 3; turn++) {
        level_2();
        wait_a_little();
    }
}

TRACED static void level_0(void) {
    level_1();
    level_1();
}

/* The time between two calls of a thread, in microseconds. */
static int pause_us;

TRACED static void *go_on_for_ever(void *number) {
    state = (unsigned)(long)number;
    for (;;) {
        level_0();
        if (pause_us > 0) {
            usleep(pause_us);
        }
    }
    return NULL;
}

TRACED static void innermost(void) {
    /* A process that is killed in its first moments leaves no names. */
    for (int turn = 0; turn < 10; turn++) {
        wait_a_while();
    }
    kill(getpid(), SIGKILL);
}

TRACED static void middle(void) {
    quick(5);
    innermost();
}

TRACED static void outermost(void) {
    quick(5);
    middle();
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "plain";
    if (!strcmp(how, "plain")) {
        work((void *)3L);
    } else if (!strcmp(how, "threads")) {
        pthread_t ids[4];
        for (int number = 0; number < 4; number++) {
            pthread_create(&ids[number], NULL, work, (void *)3L);
        }
        for (int number = 0; number < 4; number++) {
            pthread_join(ids[number], NULL);
        }
    } else if (!strcmp(how, "deep")) {
        deep(1000);
    } else if (!strcmp(how, "forks")) {
        slow();
        if (fork() == 0) {
            slow_by_what_it_calls(1);
            print_counts();
            exit(0);
        }
        wait(NULL);
        return 0;
    } else if (!strcmp(how, "says")) {
        says(1);
        quick(20);
        says(2);
    } else if (!strcmp(how, "asks")) {
        printf("%d", tracer_startup("TRACER_ENABLE"));
        printf("%d\n", tracer_startup("TRACER_ENABLE"));
        tracer_trace("nobody wants it");
        quick(3);
    } else if (!strcmp(how, "forever") || !strcmp(how, "slowly")) {
        pthread_t id;
        pause_us = !strcmp(how, "slowly") ? 1000 : 0;
        for (long number = 0; number < 3; number++) {
            pthread_create(&id, NULL, go_on_for_ever, (void *)number);
        }
        pthread_join(id, NULL);
    } else if (!strcmp(how, "exits")) {
        quick(3);
        exit(0);
    } else {
        outermost();
    }
    print_counts();
    return 0;
}
