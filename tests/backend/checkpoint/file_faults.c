// A library to preload: counts the calls by which a process changes files below a folder, and lets
// one of them kill the process or fail.
//
//   SHARDSCOPE_FILE_FAULT=count|kill|fail[,number=N][,rank=R][,below=TEXT][,error=NAME]
//
// The N-th call (from 1) on a path that holds TEXT ("/checkpoints/" unless given) is the one. `fail`
// gives an error from that call on: NAME is ENOSPC (unless given), EDQUOT, EROFS, EIO or ESTALE.
// `count` appends the number of calls to the file that SHARDSCOPE_FILE_FAULT_COUNT names when the
// process ends. With rank=R only in the process with RANK=R in its environment.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { most_descriptors = 4096 };

static enum { off, counting, killing, failing } mode = off;
static long number = 0;
static int error_given = ENOSPC;
static char below[256] = "/checkpoints/";
static atomic_long calls = 0;
static atomic_bool watched[most_descriptors];

static const char* value_of(const char* text, const char* key) {
  const char* found = strstr(text, key);
  return found ? found + strlen(key) : NULL;
}

static const struct {
  const char* name;
  int number;
} errors[] = {{"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EIO", EIO}, {"ESTALE", ESTALE}};

__attribute__((constructor)) static void read_variables(void) {
  const char* fault = getenv("SHARDSCOPE_FILE_FAULT");
  if (!fault) return;
  const char* wanted = value_of(fault, "rank=");
  const char* rank = getenv("RANK");
  if (wanted && (!rank || atoi(rank) != atoi(wanted))) return;
  const char* at = value_of(fault, "number=");
  number = at ? atol(at) : 0;
  const char* name = value_of(fault, "error=");
  for (size_t i = 0; name && i < sizeof errors / sizeof *errors; ++i)
    if (!strncmp(name, errors[i].name, strlen(errors[i].name))) error_given = errors[i].number;
  const char* place = value_of(fault, "below=");
  if (place) snprintf(below, sizeof below, "%.*s", (int)strcspn(place, ","), place);
  mode = !strncmp(fault, "kill", 4) ? killing : !strncmp(fault, "fail", 4) ? failing : counting;
}

__attribute__((destructor)) static void write_count(void) {
  const char* path = getenv("SHARDSCOPE_FILE_FAULT_COUNT");
  if (mode != counting || !path) return;
  mode = off;
  FILE* file = fopen(path, "a");
  if (!file) return;
  fprintf(file, "%ld\n", (long)calls);
  fclose(file);
}

/// Is the call to fail; a killed process does not come back from here.
static int strikes(void) {
  const long call = ++calls;
  if (mode == killing && call == number) kill(getpid(), SIGKILL);
  if (mode != failing || call < number) return 0;
  errno = error_given;
  return 1;
}

static int is_below(const char* path) { return mode != off && path && strstr(path, below) != NULL; }
static int is_watched(int descriptor) {
  return mode != off && descriptor >= 0 && descriptor < most_descriptors && watched[descriptor];
}
static int note(int descriptor, int is_ours) {
  if (descriptor >= 0 && descriptor < most_descriptors) watched[descriptor] = is_ours;
  return descriptor;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int opened(__typeof__(&open) real, const char* path, int flags, mode_t bits) {
  const int changes = is_below(path) && (flags & (O_CREAT | O_WRONLY | O_RDWR));
  if (changes && strikes()) return -1;
  return note(real(path, flags, bits), is_below(path));
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t bits = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(REAL(open), path, flags, bits);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t bits = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(REAL(open64), path, flags, bits);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (is_watched(descriptor) && strikes()) return -1;
  return REAL(write)(descriptor, bytes, count);
}

int fsync(int descriptor) {
  if (is_watched(descriptor) && strikes()) return -1;
  return REAL(fsync)(descriptor);
}

int close(int descriptor) {
  note(descriptor, 0);
  return REAL(close)(descriptor);
}

int rename(const char* from, const char* to) {
  if (is_below(to) && strikes()) return -1;
  return REAL(rename)(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (is_below(to) && strikes()) return -1;
  return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t bits) {
  if (is_below(path) && strikes()) return -1;
  return REAL(mkdir)(path, bits);
}

int unlink(const char* path) {
  if (is_below(path) && strikes()) return -1;
  return REAL(unlink)(path);
}

int unlinkat(int folder, const char* path, int flags) {
  // Its path is relative to an open folder: counted wherever that is.
  if (mode != off && is_watched(folder) && strikes()) return -1;
  return REAL(unlinkat)(folder, path, flags);
}
