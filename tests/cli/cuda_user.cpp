// Uses a CUDA device by the names that it finds, as a library does that was linked against CUDA.
// Exit code 0: the device did what it should; else the number of what it did not.
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function found(const char* name) {
  void* function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr) {
    std::fprintf(stderr, "%s is not there\n", name);
    std::exit(100);
  }
  return reinterpret_cast<Function>(function);
}

void require(bool holds, int number) {
  if (!holds) std::exit(number);
}

}  // namespace

int main(int count, char** arguments) {
  const auto allocate = found<int (*)(void**, std::size_t)>("cudaMalloc");
  const auto release = found<int (*)(void*)>("cudaFree");
  const auto copy = found<int (*)(void*, const void*, std::size_t, int)>("cudaMemcpy");
  const auto information = found<int (*)(std::size_t*, std::size_t*)>("cudaMemGetInfo");
  const auto devices = found<int (*)(int*)>("cudaGetDeviceCount");
  constexpr std::size_t mebibyte = std::size_t{1} << 20;

  int number = 0;
  require(devices(&number) == 0 && number == 1, 1);
  std::size_t free_before = 0, total = 0, free_after = 0;
  require(information(&free_before, &total) == 0 && free_before == total, 2);
  void* block = nullptr;
  require(allocate(&block, 64 * mebibyte) == 0 && block != nullptr, 3);
  require(information(&free_after, &total) == 0 && free_before - free_after == 64 * mebibyte, 4);
  const int sent = 1234;
  int received = 0;
  require(copy(block, &sent, sizeof sent, 1) == 0, 5);
  require(copy(&received, block, sizeof received, 2) == 0 && received == sent, 6);
  void* too_much = nullptr;
  constexpr int out_of_memory = 2;
  require(allocate(&too_much, total) == out_of_memory, 7);
  require(release(block) == 0, 8);
  require(information(&free_after, &total) == 0 && free_after == total, 9);
  // By name, as Triton asks the driver.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  require(driver != nullptr && dlsym(driver, "cuInit") != nullptr, 10);
  // Of what nobody wrote the program is told.
  require(found<long (*)()>("cusparseGather")() == 0, 11);
  // A worker that uses no device, and does not end as a program does.
  if (fork() == 0) _exit(0);
  if (count > 1 && std::strcmp(arguments[1], "--crash") == 0) std::abort();
  return 0;
}
