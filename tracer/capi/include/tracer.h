/*
 * Tracing for multithreaded programs that misbehave only when nobody looks: the interface for C.
 *
 *     #include <tracer.h>
 *
 *     tracer_trace("request %d took %.3f ms", id, ms);
 *
 * Link with `-ltracer` (`pkg-config --cflags --libs tracer`), and run the program with TRACER_ENABLE=1. Each thread
 * has a file, `<exe>.trace.<tid>` beside the executable, and the command `tracemerge` merges these into one in time
 * order.
 *
 * With -finstrument-functions, each function of a program is traced if the program is linked with this library or
 * runs with it preloaded, which `tracemerge run` does for you. See docs/functions.md in the repository.
 *
 * All functions may be called from any thread, also before main and in handlers of atexit. None of them ends the
 * process or throws. Those that record preserve errno; if tracing is off, each of them costs a call and a load.
 *
 * Licensed under MIT or Apache-2.0, at your option.
 */
#ifndef TRACER_H
#define TRACER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRACER_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define TRACER_NOT_TRACED __attribute__((no_instrument_function, unused))
#else
#define TRACER_PRINTF(at, first)
#define TRACER_NOT_TRACED
#endif

/*
 * Returns whether this process traces. The first call decides by TRACER_ENABLE, if nothing was decided before. Use it
 * for work that is only worth doing if it is traced.
 */
bool tracer_is_enabled(void);

/*
 * Makes `variable` the only environment variable that switches tracing on, and decides by it now. Returns whether the
 * process traces. Not needed if TRACER_ENABLE is good enough.
 */
bool tracer_startup(const char *variable);

/*
 * Waits until all records that any thread made before this call are in the files. Returns 0, or the number of the
 * first error that prevented it (EAGAIN: called inside of a record). Not needed before an exit.
 */
int tracer_flush(void);

/* Writes the contents of a flight recorder (TRACER_FULL=overwrite). Returns as tracer_flush does. */
int tracer_snapshot(void);

/* Ends tracing and completes every file. Never needed: an exit does the same. Returns as tracer_flush does. */
int tracer_shutdown(void);

/*
 * Records the call stack of the calling function, at most 120 frames. It is empty on systems on which stacks cannot
 * be walked: see docs/systems.md in the repository.
 */
void tracer_stack(void);

/*
 * Makes each signal that ends the process (those that dump a core) record its name and the call stack of its thread
 * in the trace. Call it after tracing is on; the process ends as it would have otherwise. Linux only.
 */
void tracer_catch_signals(void);

/* Counters of the tracer's work so far in this process. Those of running threads may be a few records behind. */
struct tracer_stats {
    int enabled;            /* 1 if this process traces, otherwise 0 */
    uint64_t records;       /* records made */
    uint64_t lost;          /* records lost */
    uint64_t stalls;        /* the number of times that a thread has waited for the tracer */
    uint64_t stall_ns;      /* the time that threads have waited, in nanoseconds */
    uint64_t bytes_written; /* bytes written to files */
};

/* Stores the counters. Takes a lock and looks at every thread's ring, so do not call it often. */
void tracer_get_stats(struct tracer_stats *stats);

/* Functions that the functions and macros below call. Programs must not call them. */
bool tracer_begin(uint64_t *ticks);
void tracer_write_at(uint64_t ticks, uint32_t place, const char *text, size_t length);

/* A place where tracer_trace is called, and the library's knowledge of it. */
struct tracer_place {
    const char *file;
    const char *function;
    unsigned line;
    void *plan;
};

/* An argument of a message. */
union tracer_value {
    int64_t integer;
    double real;
    const char *text;
};
enum { TRACER_MOST_VALUES = 16 };

const char *tracer_letters(struct tracer_place *place, const char *format);
int64_t tracer_record(struct tracer_place *place, const char *format, uint64_t ticks, const union tracer_value *values);
bool tracer_enter(uint64_t address);
void tracer_leave(uint64_t address, bool unwinding);

/*
 * Records a message of `length` bytes, with the time of the call and the calling thread. The text should be UTF-8;
 * other bytes are shown as \xNN. It may contain anything and have any length: a line feed begins a line that
 * continues the message.
 */
TRACER_NOT_TRACED static inline void tracer_write(const char *text, size_t length) {
    uint64_t ticks;
    if (tracer_begin(&ticks)) {
        tracer_write_at(ticks, 0, text, length);
    }
}

/* Fetches the arguments that a place's letters name. */
TRACER_NOT_TRACED static inline void tracer_fetch(const char *letters, union tracer_value *values, va_list arguments) {
    for (; *letters; letters++, values++) {
        switch (*letters) {
        case 'i': values->integer = va_arg(arguments, int); break;
        case 'l': values->integer = va_arg(arguments, long); break;
        case 'q': values->integer = va_arg(arguments, long long); break;
        case 'j': values->integer = (int64_t)va_arg(arguments, intmax_t); break;
        case 'z': values->integer = (int64_t)va_arg(arguments, size_t); break;
        case 't': values->integer = (int64_t)va_arg(arguments, ptrdiff_t); break;
        case 'p': values->integer = (int64_t)(intptr_t)va_arg(arguments, void *); break;
        case 'f': values->real = va_arg(arguments, double); break;
        default: values->text = va_arg(arguments, const char *); break;
        }
    }
}

/*
 * Records a message of a place, or of none (NULL), as tracer_trace and tracer_vtrace do. `format` is a format of
 * printf.
 */
TRACER_PRINTF(2, 0)
TRACER_NOT_TRACED static inline void tracer_vtrace_at(struct tracer_place *place, const char *format, va_list arguments) {
    uint64_t ticks;
    if (!tracer_begin(&ticks)) {
        return;
    }
    uint32_t number = 0;
    const char *letters = place ? tracer_letters(place, format) : NULL;
    if (letters) {
        union tracer_value values[TRACER_MOST_VALUES];
        va_list fetched;
        va_copy(fetched, arguments);
        tracer_fetch(letters, values, fetched);
        va_end(fetched);
        int64_t taken = tracer_record(place, format, ticks, values);
        if (taken < 0) {
            return;
        }
        number = (uint32_t)taken;
    }
    int kept = errno;
    char text[512];
    va_list again;
    va_copy(again, arguments);
    /* %m must show the caller's errno. */
    int length = vsnprintf(text, sizeof text, format, arguments);
    char *whole = text;
    if (length >= (int)sizeof text) {
        whole = (char *)malloc((size_t)length + 1);
        errno = kept;
        length = whole ? vsnprintf(whole, (size_t)length + 1, format, again) : -1;
    }
    va_end(again);
    if (length >= 0) {
        tracer_write_at(ticks, number, whole, (size_t)length);
    } else {
        static const char before[] = "unformatted: ";
        size_t head = sizeof before - 1, rest = strlen(format);
        rest = rest < sizeof text - head ? rest : sizeof text - head;
        memcpy(text, before, head);
        memcpy(text + head, format, rest);
        tracer_write_at(ticks, number, text, head + rest);
    }
    if (whole != text) {
        free(whole);
    }
    errno = kept;
}

/*
 * Records a message that is formatted as vprintf does, by the C library of the program, before the call returns. If
 * the C library cannot format it, the format itself is recorded, after "unformatted: ".
 */
TRACER_PRINTF(1, 0) TRACER_NOT_TRACED static inline void tracer_vtrace(const char *format, va_list arguments) {
    tracer_vtrace_at(NULL, format, arguments);
}

/* The function that tracer_trace calls. */
TRACER_PRINTF(2, 3)
TRACER_NOT_TRACED static inline void tracer_trace_at(struct tracer_place *place, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tracer_vtrace_at(place, format, arguments);
    va_end(arguments);
}

/*
 * Records a message that is formatted as printf does. The compiler checks the arguments. They are copied at the call
 * and formatted later if all of them are integers, floats for %f, characters, pointers or short texts in ASCII. Any
 * other message is formatted at the call, as by tracer_vtrace. So `format` should be a literal.
 */
#if defined(__GNUC__)
#define tracer_trace(...)                                                                  \
    __extension__({                                                                        \
        static struct tracer_place tracer_here = {__FILE__, __func__, __LINE__, NULL};     \
        tracer_trace_at(&tracer_here, __VA_ARGS__);                                        \
    })
#else
#define tracer_trace(...) tracer_trace_at(NULL, __VA_ARGS__)
#endif

/*
 * An address in the function that contains this macro; 0 on processors other than x86-64 and aarch64. It is not a
 * function, because debug information would name that instead of the function into which it is inlined.
 */
#if defined(__GNUC__)
#if defined(__x86_64__)
#define TRACER_HERE() \
    __extension__({ uint64_t tracer_address; __asm__ volatile("1: lea 1b(%%rip), %0" : "=r"(tracer_address)); tracer_address; })
#elif defined(__aarch64__)
#define TRACER_HERE() \
    __extension__({ uint64_t tracer_address; __asm__ volatile("adr %0, ." : "=r"(tracer_address)); tracer_address; })
#else
#define TRACER_HERE() UINT64_C(0)
#endif

/*
 * Records that the function is entered, and that it is left when the enclosing block is left, in any way. The name of
 * the function is found later, from debug information: compile at least with -g1.
 *
 *     int parse(const char *text) {
 *         TRACER_SCOPE();
 *         ...
 *     }
 */
#ifdef __cplusplus
#define TRACER_SCOPE() ::tracer::Scope TRACER_JOINED(tracer_scope_, __LINE__)(TRACER_HERE())
#else
#define TRACER_SCOPE()                                                                                    \
    __attribute__((cleanup(tracer_leave_scope), unused)) uint64_t TRACER_JOINED(tracer_scope_, __LINE__) = \
        tracer_enter_scope(TRACER_HERE())

__attribute__((always_inline)) TRACER_NOT_TRACED static inline uint64_t tracer_enter_scope(uint64_t address) {
    return address && tracer_enter(address) ? address : 0;
}

__attribute__((always_inline)) TRACER_NOT_TRACED static inline void tracer_leave_scope(uint64_t *address) {
    if (*address) {
        tracer_leave(*address, false);
    }
}
#endif
#define TRACER_JOINED(left, right) TRACER_JOINED_AGAIN(left, right)
#define TRACER_JOINED_AGAIN(left, right) left##right
#endif

#ifdef __cplusplus
}

#include <exception>
#include <string>

namespace tracer {

/* Records a scope, as TRACER_SCOPE does; also records whether an exception unwinds the stack. */
class Scope {
public:
    TRACER_NOT_TRACED explicit Scope(uint64_t address) noexcept
        : address_(address && tracer_enter(address) ? address : 0), exceptions_(exceptions()) {}
    TRACER_NOT_TRACED ~Scope() {
        if (address_) {
            tracer_leave(address_, exceptions() > exceptions_);
        }
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

private:
    TRACER_NOT_TRACED static int exceptions() noexcept {
#if __cplusplus >= 201703L
        return std::uncaught_exceptions();
#else
        return std::uncaught_exception() ? 1 : 0;
#endif
    }
    uint64_t address_;
    int exceptions_;
};

/* Records a text without formatting it. */
TRACER_NOT_TRACED inline void write(const std::string &text) {
    tracer_write(text.data(), text.size());
}

} // namespace tracer
#endif

#endif
