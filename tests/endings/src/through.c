/* A library that a stack goes through. It is compiled with a PDB, as Microsoft's compilers do, and needs no other library. */

typedef int (*callback)(int);

static inline __attribute__((always_inline)) int inlined(callback call, int n) {
    return call(n) + 1; /* CALLS */
}

static __attribute__((noinline)) int inner(callback call, int n) {
    return inlined(call, n) * 3; /* INLINES */
}

__declspec(dllexport) int through(callback call, int n) {
    return inner(call, n) - 1; /* BEGINS */
}

int DllMain(void *module, unsigned reason, void *reserved) {
    return 1;
}
