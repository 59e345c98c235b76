// Calls a function again and again, in one thread or in two: `fib N [THREADS]`.
#include <pthread.h>
#include <stdlib.h>

__attribute__((noinline)) static long fib(long n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void *work(void *n) {
    return (void *)fib((long)n);
}

int main(int count, char **words) {
    pthread_t threads[2];
    int wanted = count > 2 && atoi(words[2]) > 1 ? 2 : 1;
    for (int i = 0; i < wanted; i++) pthread_create(&threads[i], NULL, work, (void *)atol(words[1]));
    for (int i = 0; i < wanted; i++) pthread_join(threads[i], NULL);
}
