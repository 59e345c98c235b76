/* A program that opens libraries for a moment, and the libraries. Each of these has a function of its own name, which
 * calls another one. Also a program that does hardly anything, and may delete its own file or run in memory, and one
 * whose first call of a function is inside a callback of the loader. */
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
#elif defined(CALLBACK)
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>

/* The loader holds its lock meanwhile. */
static int in_callback(struct dl_phdr_info *module, size_t bytes, void *calls) {
    *(int *)calls += module && bytes;
    return 0;
}

__attribute__((noinline)) static int after_callbacks(int calls) {
    return calls + 1;
}

__attribute__((no_instrument_function)) int main(void) {
    int calls = 0;
    dl_iterate_phdr(in_callback, &calls);
    printf("%d\n", after_callbacks(calls));
    return 0;
}
#elif defined(SHORT)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

/* Replaces the program by itself, from a file that exists in memory only. */
__attribute__((no_instrument_function)) static void start_in_memory(char **arguments) {
    char bytes[4096];
    ssize_t count;
    int copy = memfd_create("app", 0);
    int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    while ((count = read(own, bytes, sizeof bytes)) > 0) {
        if (write(copy, bytes, count) != count) {
            _exit(1);
        }
    }
    unsetenv("IN_MEMORY");
    fexecve(copy, arguments, environ);
    _exit(1);
}

/* Runs before the first hook. */
__attribute__((constructor, no_instrument_function)) static void prepare(int count, char **arguments) {
    if (count && getenv("DELETES") && unlink(arguments[0])) {
        _exit(1);
    }
    if (getenv("IN_MEMORY")) {
        start_in_memory(arguments);
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
static void use(const char *name, int waits) {
    /* The flusher writes the records up to here; it looks at the libraries by itself while this one is open, and just
     * once, for it has nothing to write then. */
    usleep(waits ? 150000 : 0);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        exit(1);
    }
    usleep(waits ? 90000 : 0);
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
        use(name, 0);
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
        use("libone.so", turn % 5 == 4);
        use("libtwo.so", 0);
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
