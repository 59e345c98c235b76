/* Records messages of bytes that are not all UTF-8, as a program or as a library of another one, and prints them. */
#include <stdio.h>
#include <string.h>

#include "tracer.h"

/* Wrong bytes, beginnings of characters, whole characters, and a text that looks like an escape. */
static const char ODD[] = "\xff\xc3\xbc\xe2\x82x\xf0\x9f\xa6\\xff\xf0\x9f\xa6\x80\x80\\\xc3";

unsigned of_library(unsigned n) {
    char text[4096];
    /* A piece of a message has at most 2 KiB here, and ends at another byte of ODD in each message. */
    size_t length = n < 10 ? n : n - 10, repetitions = n < 10 ? 1 : 180;
    memset(text, '.', length);
    for (; repetitions > 0; repetitions--) {
        memcpy(text + length, ODD, sizeof ODD - 1);
        length += sizeof ODD - 1;
    }
    text[length] = 0;
    if (n % 2) {
        tracer_write(text, length);
    } else {
        tracer_trace("%s", text);
    }
    if (n == 5) {
        tracer_flush();
    }
    for (size_t at = 0; at < length; at++) {
        printf("%02x", (unsigned char)text[at]);
    }
    putchar('\n');
    return 2 * n + 1;
}

int main(void) {
    for (unsigned n = 0; n < 50; n++) {
        of_library(n);
    }
}
