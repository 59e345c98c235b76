// Prints messages, and traces the same.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <tracer.h>

static int throwing(int depth) {
    TRACER_SCOPE();
    if (depth == 0) {
        throw std::runtime_error("thrown");
    }
    return throwing(depth - 1);
}

int main() {
    try {
        throwing(2);
    } catch (const std::exception &error) {
        tracer_trace("caught %s", error.what());
        std::printf("caught %s\n", error.what());
    }
    std::string text = "a text of C++";
    tracer::write(text);
    std::printf("%s\n", text.c_str());
    return tracer_shutdown();
}
