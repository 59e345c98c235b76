/* A shared library. The test `names_agree_with_addr2line` finds the names of its functions. */

static inline int doubled(int n) { return n * 2; }

static __attribute__((noinline)) int hidden(int n) {
    int sum = 0;
    for (int at = 0; at < n; at++) sum += doubled(at) ^ n;
    return sum;
}

int shown(int n) { return hidden(n) + doubled(n); }

/* The same code under another name. */
int also_shown(int n) __attribute__((alias("shown")));
