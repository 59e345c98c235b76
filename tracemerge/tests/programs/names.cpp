// A program in C++. The test `names_agree_with_addr2line` finds the names of its functions.

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes {
template <typename T, int N> struct Fixed {
    T items[N];
    __attribute__((noinline)) T sum() const {
        T all{};
        for (const T &item : items) all += item;
        return all;
    }
    Fixed operator+(const Fixed &other) const {
        Fixed both{};
        for (int at = 0; at < N; at++) both.items[at] = items[at] + other.items[at];
        return both;
    }
};

class Shape {
  public:
    explicit Shape(std::string name) : name_(std::move(name)) {}
    virtual ~Shape() { std::printf("gone: %s\n", name_.c_str()); }
    virtual double area() const = 0;

  protected:
    std::string name_;
};

namespace {
class Square final : public Shape {
  public:
    explicit Square(double side) : Shape("square"), side_(side) {}
    double area() const override { return squared(side_); }

  private:
    static inline double squared(double x) { return x * x; }
    double side_;
};
} // namespace
} // namespace shapes

static __attribute__((noinline)) int refuse(int n) {
    if (n > 2) throw std::out_of_range("too many: " + std::to_string(n));
    return n;
}

extern "C" __attribute__((noinline)) int plain(int n) { return n * 3 + refuse(n % 3); }

int main(int argc, char **argv) {
    shapes::Fixed<long, 4> a{{1, 2, 3, argc}};
    std::printf("%ld\n", (a + a).sum());
    std::map<std::string, std::vector<int>> all;
    all["x"] = {3, 1, 2};
    auto falling = [&](int left, int right) { return left > right + argc; };
    std::sort(all["x"].begin(), all["x"].end(), falling);
    try {
        shapes::Square square(argc);
        std::printf("%f %d\n", square.area(), plain(argc));
        refuse(argc + 2);
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
    }
    return 0;
}
