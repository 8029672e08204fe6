// Uses a CUDA device by the names that it finds, as a library does that was linked against CUDA.
// Exit code 0: the device did what it should; else the number of what it did not.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

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

constexpr std::size_t gibibyte = std::size_t{1} << 30;

/// Sets a gibibyte between two events. `--time model`: it takes the time of its bytes; `zero`:
/// none.
int use_time(bool is_modelled) {
  const auto allocate = found<int (*)(void**, std::size_t)>("cudaMalloc");
  const auto make = found<int (*)(void**)>("cudaEventCreate");
  const auto record = found<int (*)(void*, void*)>("cudaEventRecord");
  const auto query = found<int (*)(void*)>("cudaEventQuery");
  const auto wait = found<int (*)(void*)>("cudaEventSynchronize");
  const auto elapsed = found<int (*)(float*, void*, void*)>("cudaEventElapsedTime");
  const auto set = found<int (*)(void*, int, std::size_t, void*)>("cudaMemsetAsync");
  void *block = nullptr, *begin = nullptr, *end = nullptr;
  require(allocate(&block, gibibyte) == 0 && make(&begin) == 0 && make(&end) == 0, 20);
  require(record(begin, nullptr) == 0 && set(block, 0, gibibyte, nullptr) == 0, 21);
  require(record(end, nullptr) == 0, 22);
  constexpr int not_ready = 600;
  require(query(end) == (is_modelled ? not_ready : 0), 23);
  require(wait(end) == 0 && query(end) == 0, 24);
  float milliseconds = -1;
  require(elapsed(&milliseconds, begin, end) == 0, 25);
  // 2^30 bytes at the 3.35 TB/s of an H100 are 0.3205 ms, and no memory reaches that. Where work
  // ends at once, events are half a microsecond apart.
  require(is_modelled ? milliseconds > 0.32F && milliseconds < 0.64F : milliseconds == 0.0005F, 26);
  return 0;
}

/// Milliseconds that a copy of `bytes` from there takes on the device.
float copy_time(void* to, const void* from, std::size_t bytes) {
  const auto make = found<int (*)(void**)>("cudaEventCreate");
  const auto record = found<int (*)(void*, void*)>("cudaEventRecord");
  const auto copy = found<int (*)(void*, const void*, std::size_t, int, void*)>("cudaMemcpyAsync");
  const auto elapsed = found<int (*)(float*, void*, void*)>("cudaEventElapsedTime");
  void *begin = nullptr, *end = nullptr;
  require(make(&begin) == 0 && make(&end) == 0 && record(begin, nullptr) == 0, 50);
  require(copy(to, from, bytes, 1, nullptr) == 0 && record(end, nullptr) == 0, 51);
  float milliseconds = -1;
  require(elapsed(&milliseconds, begin, end) == 0, 52);
  return milliseconds;
}

/// 128 MiB to an H100 over PCIe 5's 48 GB/s take 2.796 ms. From memory that is not locked they take
/// 2.2 us and 128 MiB / 7.29 GB/s: 18.413 ms (tests/data/h100_kernels/copies.csv: 18.410 ms).
int copy_both_kinds() {
  constexpr std::size_t bytes = std::size_t{128} << 20;
  const auto allocate = found<int (*)(void**, std::size_t)>("cudaMalloc");
  const auto lock = found<int (*)(void**, std::size_t)>("cudaMallocHost");
  void *block = nullptr, *locked = nullptr;
  require(allocate(&block, bytes) == 0 && lock(&locked, bytes) == 0, 53);
  void* pageable = std::malloc(bytes);
  const float fast = copy_time(block, locked, bytes), slow = copy_time(block, pageable, bytes);
  std::printf("%.3f and %.3f ms\n", static_cast<double>(fast), static_cast<double>(slow));
  std::free(pageable);
  // The host issues the copy and the event behind it, some 5 us each.
  require(fast > 2.79F && fast < 2.85F, 54);
  require(slow > 18.40F && slow < 18.45F, 55);
  return 0;
}

/// Tells the log what torch's allocator would of these blocks, by the numbers in `order`: first all
/// are taken, then all but the last are given back one after another. The last one waits for a
/// stream.
int give_back(const std::string& order) {
  const auto tell = found<void (*)(const char*)>("shardscope_log");
  const auto set = found<int (*)(void*, int, std::size_t)>("cudaMemset");
  void* block = nullptr;
  require(found<int (*)(void**, std::size_t)>("cudaMalloc")(&block, 1024) == 0, 60);
  const auto of = [&](const char* what, char number) {
    tell((std::string(what) + "\t" + number + "000\t512\t0").c_str());
  };
  for (const char number : {'1', '2', '3', '4'}) of("alloc", number);
  for (const char number : order) {
    of("free", number);
    of("freed", number);
  }
  of("free", '4');
  require(set(block, 0, 1024) == 0, 61);
  of("freed", '4');
  return 0;
}

struct UniqueId {
  char bytes[128];
};

/// Each of two ranks sends its number to the other, and hears what rank 1 broadcasts.
int talk() {
  const auto meet = found<int (*)(void**, int, UniqueId, int)>("ncclCommInitRank");
  const auto tell = found<void (*)(int, const int*)>("shardscope_next_group");
  const auto send = found<int (*)(const void*, std::size_t, int, int, void*, void*)>("ncclSend");
  const auto receive = found<int (*)(void*, std::size_t, int, int, void*, void*)>("ncclRecv");
  const auto broadcast =
      found<int (*)(const void*, void*, std::size_t, int, int, void*, void*)>("ncclBroadcast");
  const auto wait = found<int (*)(void*)>("cudaStreamSynchronize");
  const int own = std::atoi(std::getenv("SHARDSCOPE_RANK")), other = 1 - own;
  const int members[] = {0, 1};
  tell(2, members);
  void* communicator = nullptr;
  require(meet(&communicator, 2, {}, own) == 0, 30);
  constexpr int int32 = 2;
  int received = -1, sent = 100 + own, told = 200 + own;
  require(receive(&received, 1, int32, other, communicator, nullptr) == 0, 31);
  require(send(&sent, 1, int32, other, communicator, nullptr) == 0, 32);
  require(broadcast(&told, &told, 1, int32, 1, communicator, nullptr) == 0, 33);
  require(wait(nullptr) == 0 && received == 100 + other && told == 201, 34);
  return 0;
}

/// A child of fork uses the device, and ends without anything at its end.
int use_in_child() {
  const pid_t child = fork();
  if (child == 0) {
    void* block = nullptr;
    const auto allocate = found<int (*)(void**, std::size_t)>("cudaMalloc");
    const auto set = found<int (*)(void*, int, std::size_t)>("cudaMemset");
    _exit(allocate(&block, 1024) == 0 && set(block, 0, 1024) == 0 ? 0 : 40);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child && status == 0, 41);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "--model" || mode == "--zero") return use_time(mode == "--model");
  if (mode == "--talk") return talk();
  if (mode == "--child") return use_in_child();
  if (mode == "--copies") return copy_both_kinds();
  if (mode == "--give-back") return give_back(arguments[2]);
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
  if (mode == "--crash") std::abort();
  return 0;
}
