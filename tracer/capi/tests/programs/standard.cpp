// Uses functions of the standard library that are compiled with the program, and prints how often they have called
// one of the program's own.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

static unsigned long shorter_calls;

__attribute__((noinline)) static bool shorter(const std::string &a, const std::string &b) {
    shorter_calls++;
    return a.size() < b.size();
}

int main() {
    std::vector<std::string> words;
    for (int length = 0; length < 40; length++) {
        words.push_back(std::string(length * 7 % 40, 'x'));
    }
    std::sort(words.begin(), words.end(), shorter);
    std::printf("longest %zu\ncalled shorter %lu\n", words.back().size(), shorter_calls);
}
