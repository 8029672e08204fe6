// Stands for the CUDA driver of an older machine: it answers what version it knows, and nothing else.
#include <stddef.h>
#include <string.h>

enum { cuda_12_2 = 12020, not_found = 500 };

int cuDriverGetVersion(int* version) {
  *version = cuda_12_2;
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long flags,
                        int* status) {
  (void)version;
  (void)flags;
  *function = NULL;
  if (strcmp(name, "cuDriverGetVersion") == 0) *function = (void*)cuDriverGetVersion;
  if (strcmp(name, "cuInit") == 0) *function = (void*)cuInit;
  if (strcmp(name, "cuGetProcAddress") == 0) *function = (void*)cuGetProcAddress_v2;
  if (status != NULL) *status = *function == NULL;
  return *function == NULL ? not_found : 0;
}

int cuGetProcAddress(const char* name, void** function, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
