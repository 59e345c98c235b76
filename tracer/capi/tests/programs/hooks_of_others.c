/* A library with hooks that do nothing. */
void __cyg_profile_func_enter(void *function, void *call_site) {
    (void)function, (void)call_site;
}

void __cyg_profile_func_exit(void *function, void *call_site) {
    (void)function, (void)call_site;
}
