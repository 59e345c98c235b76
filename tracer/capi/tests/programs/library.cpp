// A library that has functions with hooks, and is not linked with the tracer.
namespace space {
__attribute__((noinline)) static unsigned inner(unsigned n) {
    return n * 2;
}

__attribute__((noinline)) static unsigned outer(unsigned n) {
    return inner(n) + 1;
}
} // namespace space

extern "C" unsigned of_library(unsigned n) {
    return space::outer(n);
}
