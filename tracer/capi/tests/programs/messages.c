/* Prints messages, and traces the same. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracer.h>

#define BOTH(...)                     \
    do {                              \
        tracer_trace(__VA_ARGS__);    \
        printf(__VA_ARGS__);          \
        putchar('\n');                \
    } while (0)

static int in_scope(int x) {
    TRACER_SCOPE();
    BOTH("in a scope: %d", x);
    return x > 0 ? in_scope(x - 1) : 0;
}

int main(void) {
    errno = ENOENT;
    BOTH("an error: %m");
    if (errno != ENOENT) {
        return 1;
    }
    BOTH("nothing to format");
    BOTH("%d %i %u %x %X %o %c %%", INT_MIN, -1, UINT_MAX, 0xbeefu, 0xbeefu, 8u, 'x');
    BOTH("%hhd %hd %ld %lld %jd %zu %td", (signed char)44, (short)-4464, LONG_MIN, LLONG_MIN, INTMAX_MIN, (size_t)-1, (ptrdiff_t)-5);
    BOTH("%5.2f %-8.3e| %g %G %a %.0f %+f %010.3f", 3.14159, 12345.678, 1e-10, 1e20, 1.0, 2.5, 1.5, -1.25);
    BOTH("%f %F %e %g", INFINITY, -INFINITY, NAN, -0.0);
    BOTH("%Lf %.30Lg", 1.0L / 3, 1.0L / 3);
    BOTH("%s|%10s|%-10s|%.3s|%*s|%-*s|%.*s", "text", "right", "left", "cut off", 7, "star", 7, "star", 2, "star");
    BOTH("%2$s %1$s", "second", "first");
    BOTH("\xc3\xa4 \xe2\x82\xac %s", "\xf0\x9f\x98\x80");
    char *large = malloc(100001);
    memset(large, 'x', 100000);
    large[100000] = 0;
    BOTH("%s.", large);
    free(large);
    in_scope(2);
    tracer_write("bytes \xff\xfe", 8);
    puts("bytes \xff\xfe");
    struct tracer_stats stats;
    tracer_get_stats(&stats);
    fprintf(stderr, "enabled %d records %" PRIu64 " lost %" PRIu64 " flush %d\n", stats.enabled, stats.records, stats.lost,
            tracer_flush());
    return 0;
}
