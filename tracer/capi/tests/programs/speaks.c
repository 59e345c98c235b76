/* Records messages, calls functions, and has a library in another language do the same. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tracer.h"

__attribute__((noinline)) static int in_c(int n) {
    return n + 1;
}

int main(int count, char **arguments) {
    void *library = count > 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void (*says)(unsigned) = library ? (void (*)(unsigned))dlsym(library, "speaker_says") : NULL;
    if (!says) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    long rounds = strtol(arguments[2], NULL, 10);
    for (int n = 0; n < rounds; n++) {
        tracer_trace("c %d", n);
        in_c(n);
        says(n);
    }
}
