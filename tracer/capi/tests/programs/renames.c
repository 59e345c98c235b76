/* Two threads that rename themselves twice, and trace their names when the tracer has seen them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <tracer.h>
#include <unistd.h>

/* Longer than the tracer relies on a name that it has read: it reads the name again with the next record. */
#define LONG_ENOUGH_US 60000

static const char *const names[2][3] = {
    {"reader", "idle reader", "last reader"},
    {"writer", "reader", "last writer"},
};

static bool take_name(const char *name) {
    bool is_named = pthread_setname_np(pthread_self(), name) == 0;
    usleep(LONG_ENOUGH_US);
    tracer_trace("becomes %s", name);
    tracer_flush();
    tracer_trace("is %s", name);
    tracer_flush();
    return is_named;
}

static void *work(void *of) {
    const char *const *own = of;
    bool is_named = true;
    for (int at = 0; at < 3; at++) {
        is_named &= take_name(own[at]);
    }
    return is_named ? of : NULL;
}

int main(void) {
    pthread_t threads[2];
    for (int at = 0; at < 2; at++) {
        if (pthread_create(&threads[at], NULL, work, (void *)names[at]) != 0) {
            return 1;
        }
    }
    bool is_named = true;
    for (int at = 0; at < 2; at++) {
        void *result;
        is_named &= pthread_join(threads[at], &result) == 0 && result != NULL;
    }
    return is_named ? 0 : 2;
}
