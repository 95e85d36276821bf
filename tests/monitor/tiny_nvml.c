/* A driver's library with one GPU, or with the trouble that TINY_NVML_CODE names: how a real one is found and loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION __attribute__((visibility("default")))

static int gpu;

static int code(void) {
    const char *told = getenv("TINY_NVML_CODE");
    return told ? atoi(told) : 0;
}

FUNCTION int nvmlInitWithFlags(unsigned flags) {
    puts("a library that chats");
    fflush(stdout);
    return flags ? 2 : code();
}

/* Wants room for TINY_NVML_PROCESSES processes, and then tells of none. */
FUNCTION int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes) {
    const char *told = getenv("TINY_NVML_PROCESSES");
    (void)device;
    if (!told) return 3;
    *count = processes ? 0 : (unsigned)atoi(told);
    return processes ? 0 : 7;
}

FUNCTION int nvmlShutdown(void) { return 0; }
FUNCTION const char *nvmlErrorString(int number) { return number == 777 ? "tiny trouble" : "other trouble"; }
FUNCTION int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }

FUNCTION int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = &gpu;
    return index ? 2 : 0;
}

FUNCTION int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    strncpy(uuid, device == &gpu ? "GPU-tiny" : "GPU-other", size);
    return 0;
}

FUNCTION int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    (void)device;
    strncpy(name, "Tiny \xf8", size);
    return 0;
}

FUNCTION int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    (void)device;
    memory[0] = 1024ULL << 20; /* total, free, used */
    memory[1] = 1000ULL << 20;
    memory[2] = 24ULL << 20;
    return 0;
}

FUNCTION int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
    (void)device;
    rates[0] = 4294967295u;
    rates[1] = 12;
    return 0;
}
