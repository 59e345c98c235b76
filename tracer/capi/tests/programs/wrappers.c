/* Has its own functions in place of the C library's, like programs that count or check calls. They are traced, and
   the tracer calls them, too. Compiled with -fno-builtin, so that the calls reach the functions in this file. */
#define _GNU_SOURCE
#include "counted.h"
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

TRACED void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t at = 0; at < size; at++) {
        ((volatile char *)to)[at] = ((const volatile char *)from)[at];
    }
    return to;
}

TRACED void *memmove(void *to, const void *from, size_t size) {
    if ((const char *)from >= (char *)to) {
        return memcpy(to, from, size);
    }
    while (size--) {
        ((volatile char *)to)[size] = ((const volatile char *)from)[size];
    }
    return to;
}

TRACED void *memset(void *to, int value, size_t size) {
    for (size_t at = 0; at < size; at++) {
        ((volatile char *)to)[at] = (char)value;
    }
    return to;
}

TRACED int memcmp(const void *a, const void *b, size_t size) {
    for (size_t at = 0; at < size; at++) {
        int differs = ((const volatile unsigned char *)a)[at] - ((const volatile unsigned char *)b)[at];
        if (differs) {
            return differs;
        }
    }
    return 0;
}

TRACED size_t strlen(const char *text) {
    const volatile char *at = text;
    while (*at) {
        at++;
    }
    return at - text;
}

TRACED ssize_t write(int file, const void *text, size_t size) {
    return syscall(SYS_write, file, text, size);
}

TRACED int clock_gettime(clockid_t clock, struct timespec *now) {
    return syscall(SYS_clock_gettime, clock, now);
}

TRACED pid_t getpid(void) {
    return syscall(SYS_getpid);
}

TRACED static void of_program(int turn) {
    COUNT(0);
    char text[64], copy[64];
    struct timespec now;
    memset(text, 'a' + turn % 26, sizeof text - 1);
    text[sizeof text - 1] = 0;
    memcpy(copy, text, sizeof copy);
    memmove(copy + 1, copy, 8);
    if (memcmp(copy, text, sizeof copy) || strlen(copy) != sizeof copy - 1 || clock_gettime(CLOCK_MONOTONIC, &now)) {
        _exit(1);
    }
    /* getpid must succeed, and tracing it must not change errno. */
    errno = turn;
    if (getpid() <= 0 || errno != turn) {
        _exit(2);
    }
}

int main(void) {
    for (int turn = 0; turn < 10000; turn++) {
        of_program(turn);
    }
    write(1, "the wrapper writes\n", 19);
    print_counts();
    return 0;
}
