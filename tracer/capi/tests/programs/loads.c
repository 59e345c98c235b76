/* A program that opens libraries for a moment, and the libraries. Each of these has a function of its own name, which
 * calls another one. Also a program that does hardly anything, and may delete its own file. */
#ifdef LIBRARY
#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

#ifdef LACKS
int nobody_defines_this(int x);
#else
#define nobody_defines_this(x) (x)
#endif

__attribute__((noinline)) static int NAMED(inside_, LIBRARY)(int x) {
    return nobody_defines_this(x) * 2;
}

int called(int x) __asm__("called");
int NAMED(of_, LIBRARY)(int x) {
    return NAMED(inside_, LIBRARY)(x) + 1;
}

__attribute__((no_instrument_function)) int called(int x) {
    return NAMED(of_, LIBRARY)(x);
}
#elif defined(SHORT)
#include <stdlib.h>
#include <unistd.h>

/* Runs before the first hook. */
__attribute__((constructor, no_instrument_function)) static void deletes(int count, char **arguments) {
    if (count && getenv("DELETES") && unlink(arguments[0])) {
        _exit(1);
    }
}

__attribute__((noinline)) static int short_life(int x) {
    return x - 1;
}

int main(int count, char **arguments) {
    return arguments[0] ? short_life(count) : 1;
}
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opens a library by its name alone, which is found along the path in the program that calls `dlopen`. */
static void use(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        exit(1);
    }
    int (*called)(int) = (int (*)(int))dlsym(library, "called");
    /* It cannot be opened, so it is unloaded at once. */
    if (called(3) != 7 || dlopen("libbroken.so", RTLD_NOW) || !strstr(dlerror(), "nobody_defines_this")) {
        exit(2);
    }
    errno = 42;
    if (dlclose(library) || errno != 42) {
        exit(3);
    }
}

static void in_child(const char *name, int kills) {
    pid_t child = fork();
    if (!child) {
        use(name);
        if (kills) {
            raise(SIGKILL);
        }
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (kills ? !WIFSIGNALED(status) : status) {
        exit(4);
    }
}

int main(void) {
    for (int turn = 0; turn < 10; turn++) {
        use("libone.so");
        use("libtwo.so");
    }
    void *library = dlmopen(LM_ID_BASE, "libone.so", RTLD_NOW);
    if (!library || dlclose(library)) {
        return 5;
    }
    in_child("libone.so", 0);
    in_child("libtwo.so", 1);
    return 0;
}
#endif
