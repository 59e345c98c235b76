/* Makes the fault that its argument names, which a sanitizer reports. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *volatile kept;
static volatile int number = 2147483647;

/* Ends the process before a function with hooks is called. */
__attribute__((constructor, no_instrument_function)) static void begin(void) {
    if (getenv("ENDS_EARLY")) {
        raise(SIGSEGV);
    }
}

__attribute__((noinline)) static int fault(const char *which) {
    if (!strcmp(which, "address")) {
        kept = malloc(8);
        free(kept);
        return *kept;
    }
    if (!strcmp(which, "thread")) {
        pthread_mutex_unlock(&mutex);
    } else if (!strcmp(which, "leak")) {
        kept = malloc(1234);
        memset(kept, 1, 1234);
        kept = NULL;
    } else if (!strcmp(which, "undefined")) {
        number += 1;
    }
    return number;
}

__attribute__((noinline)) static int outer(const char *which) {
    int result = fault(which);
    __asm__ volatile("" ::: "memory");
    return result;
}

int main(int count, char **arguments) {
    printf("number %d\n", outer(count > 1 ? arguments[1] : "") > 0);
    return 0;
}
