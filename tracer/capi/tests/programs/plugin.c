/* A plugin of which every function is traced, its constructor among them. */
__attribute__((noinline)) static int inside_plugin(int x) {
    return x * 2;
}

__attribute__((constructor)) static void plugin_is_loaded(void) {
    inside_plugin(1);
}

int of_plugin(int x) {
    return inside_plugin(x) + 1;
}
