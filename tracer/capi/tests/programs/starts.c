/* Starts itself again, which prints a part of its environment, and ends with the status that its argument names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value ? value : "(none)";
}

int main(int count, char **arguments) {
    if (count > 2 && !strcmp(arguments[2], "child")) {
        printf("child: LD_PRELOAD=%s TRACER_PRELOADED=%s TRACER_ENABLE=%s\n", variable("LD_PRELOAD"),
               variable("TRACER_PRELOADED"), variable("TRACER_ENABLE"));
        return 0;
    }
    if (fork() == 0) {
        execl("/proc/self/exe", arguments[0], arguments[1], "child", (char *)NULL);
        _exit(99);
    }
    wait(NULL);
    return atoi(arguments[1]);
}
