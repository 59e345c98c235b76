/* A plugin whose functions are all traced, including its constructor, or which records a message. */
#ifdef SAYS
#include <tracer.h>
#endif

__attribute__((noinline)) static int inside_plugin(int x) {
    return x * 2;
}

__attribute__((constructor)) static void plugin_is_loaded(void) {
    inside_plugin(1);
}

#ifdef __cplusplus
extern "C"
#endif
int of_plugin(int x) {
#ifdef SAYS
    tracer_trace("the plugin says %d", x);
#endif
    return inside_plugin(x) + 1;
}
