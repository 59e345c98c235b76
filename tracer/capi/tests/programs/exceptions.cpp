// Throws through functions that are traced, and prints how often each was called.
#include <cstdio>
#include <stdexcept>

#define TRACED __attribute__((noinline))

static unsigned long throwing_calls, catching_calls, after_calls;

struct Guard {
    ~Guard();
};

TRACED static int throwing(int depth) {
    throwing_calls++;
    Guard guard;
    if (depth == 0) {
        throw std::runtime_error("thrown");
    }
    return throwing(depth - 1) + 1;
}

Guard::~Guard() {}

TRACED static int after(int x) {
    after_calls++;
    return x;
}

TRACED static int catching(int depth) {
    catching_calls++;
    try {
        return throwing(depth);
    } catch (const std::exception &) {
        return after(depth);
    }
}

int main() {
    int sum = 0;
    for (int turn = 0; turn < 100; turn++) {
        sum += catching(turn % 7);
    }
    std::printf("sum %d\ncalled throwing %lu\ncalled catching %lu\ncalled after %lu\n", sum, throwing_calls,
                catching_calls, after_calls);
}
