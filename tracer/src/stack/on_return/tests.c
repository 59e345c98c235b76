// Functions of C whose returns are awaited: they return a value in each class of registers, or are left by a
// jump. Compiled and loaded by tests.rs.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>

typedef void (*called)(void);

struct one_long { long a; };
struct two_longs { long a, b; };
struct mixed { double a; long b; };
struct mixed_back { long a; double b; };
struct two_doubles { double a, b; };
struct floats { float a, b, c; };
struct large { long all[40]; };
typedef float vector __attribute__((vector_size(16)));

#define RETURNS(name, type, value)                                              \
    __attribute__((noinline)) type name(called inside) { inside(); return value; }

RETURNS(a_bool, _Bool, 1)
RETURNS(a_long, long, -0x123456789abcdefL)
RETURNS(an_int128, __int128, ((__int128)0x0123456789abcdefL << 64) | 0x7edcba9876543210L)
RETURNS(a_float, float, 1.5f)
RETURNS(a_double, double, -2.25)
RETURNS(an_x87, long double, 1.0L / 3)
RETURNS(two_x87, long double _Complex, 1.0L / 3 + 2.0L / 7 * I)
RETURNS(two_xmm, double _Complex, 3.5 - 4.5 * I)
RETURNS(half_xmm, float _Complex, 0.5f + 0.25f * I)
RETURNS(a_vector, vector, ((vector){1, 2, 3, 4}))
RETURNS(a_one_long, struct one_long, ((struct one_long){7}))
RETURNS(a_two_longs, struct two_longs, ((struct two_longs){8, 9}))
RETURNS(a_mixed, struct mixed, ((struct mixed){10.5, 11}))
RETURNS(a_mixed_back, struct mixed_back, ((struct mixed_back){12, 13.5}))
RETURNS(a_two_doubles, struct two_doubles, ((struct two_doubles){14.5, 15.5}))
RETURNS(a_floats, struct floats, ((struct floats){16.5f, 17.5f, 18.5f}))
RETURNS(a_large, struct large, ((struct large){{19, [39] = 20}}))

static void nothing(void) {}

// Returns the number of functions that return another value if their return is awaited, and stores the number of
// functions.
int differences(called await, int *functions) {
    int different = 0;
    *functions = 0;
    // 6 of the 16 bytes of a `long double` are not used.
#define COMPARE(name, type, bytes)                                              \
    do {                                                                        \
        type alone = name(nothing), awaited = name(await);                      \
        different += memcmp(&alone, &awaited, bytes) != 0;                      \
        ++*functions;                                                           \
    } while (0)
    COMPARE(a_bool, _Bool, 1);
    COMPARE(a_long, long, 8);
    COMPARE(an_int128, __int128, 16);
    COMPARE(a_float, float, 4);
    COMPARE(a_double, double, 8);
    COMPARE(an_x87, long double, 10);
    COMPARE(two_xmm, double _Complex, 16);
    COMPARE(half_xmm, float _Complex, 8);
    COMPARE(a_vector, vector, 16);
    COMPARE(a_one_long, struct one_long, 8);
    COMPARE(a_two_longs, struct two_longs, 16);
    COMPARE(a_mixed, struct mixed, 16);
    COMPARE(a_mixed_back, struct mixed_back, 16);
    COMPARE(a_two_doubles, struct two_doubles, 16);
    COMPARE(a_floats, struct floats, 12);
    COMPARE(a_large, struct large, sizeof(struct large));
    long double _Complex alone = two_x87(nothing), awaited = two_x87(await);
    different += creall(alone) != creall(awaited) || cimagl(alone) != cimagl(awaited);
    ++*functions;
    return different;
}

// Uses the registers of all kinds, the eight of the x87 among them.
void clobber(void) {
    volatile long double x = 2;
    volatile double y = 3;
    volatile __int128 z = 5;
    for (int i = 0; i < 10; i++) {
        x = x * x / (x + 1) + (x - 3) * (x + 4) / ((x + 5) * (x + 6) + (x + 7) * (x + 8));
        y = y * y / (y + 1) + (y - 3) * (y + 4);
        z = z * z + 1;
    }
    __asm__ volatile("fldz; fld1; fldpi; fldz; fstp %%st; fstp %%st; fstp %%st; fstp %%st;"
                     "pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm1, %%xmm1; mov $-1, %%rdx; mov $-1, %%rcx"
                     ::: "xmm0", "xmm1", "rdx", "rcx", "memory");
}

static __thread jmp_buf target;

// Returns 0 if `inside` returned, or the number that it has jumped with.
int guarded(called inside) {
    jmp_buf before;
    memcpy(&before, &target, sizeof before);
    int number = setjmp(target);
    if (number == 0)
        inside();
    memcpy(&target, &before, sizeof before);
    return number;
}

// Awaits its return, and is left by a jump.
void jumps(called await, int number) {
    await();
    longjmp(target, number);
}

// Awaits its return after its own call, and computes with the result of that call.
int returns_after(called await, called inside, int number) {
    await();
    int got = guarded(inside);
    return got * 100 + number;
}
