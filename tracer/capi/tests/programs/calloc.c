/* A part of an allocator with traced functions, for programs into which it is preloaded. */
#include <stddef.h>

void *__libc_calloc(size_t count, size_t size);

__attribute__((noinline)) static void *give(size_t count, size_t size) {
    return __libc_calloc(count, size);
}

void *calloc(size_t count, size_t size) {
    return give(count, size);
}
