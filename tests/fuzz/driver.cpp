// Runs a fuzz target without libFuzzer: every file of the corpus, then seeded mutations of them for
// some seconds. An input that crashes, aborts or takes longer than `hang_s` is left in a file,
// which is named, and the process ends by that signal.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using shardscope::fuzz::Mutator;

constexpr std::size_t max_input_bytes = 64 * 1024;
constexpr unsigned hang_s = 60;
constexpr rlim_t max_memory_bytes = rlim_t{4} << 30;

struct Options {
  double seconds = 10;
  std::uint64_t seed = 1;
  std::vector<fs::path> inputs;
};

// What the signal handler may touch.
std::string current_input;
char crash_file[64];

extern "C" void leave_input_behind(int signal_number) {
  constexpr std::string_view message = "fuzz: the input that did it is in ";
  const int file = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool written = file >= 0 && write(file, current_input.data(), current_input.size()) >= 0 &&
                       write(STDERR_FILENO, message.data(), message.size()) >= 0 &&
                       write(STDERR_FILENO, crash_file, std::strlen(crash_file)) >= 0 &&
                       write(STDERR_FILENO, "\n", 1) >= 0;
  static_cast<void>(written);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void watch_for_crashes(std::string_view program) {
  std::snprintf(crash_file, sizeof crash_file, "crash-%.*s.bin", static_cast<int>(program.size()),
                program.data());
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    std::signal(signal_number, leave_input_behind);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The sanitizers reserve far more address space than this for themselves.
  const rlimit limit{.rlim_cur = max_memory_bytes, .rlim_max = max_memory_bytes};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

void run(std::string input) {
  current_input = std::move(input);
  alarm(hang_s);
  // A copy of its own, so that a read beyond the end is one beyond an allocation.
  const std::vector<std::uint8_t> bytes(current_input.begin(), current_input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> read_inputs(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const fs::path& file : files) inputs.push_back(read_file(file));
  return inputs;
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::optional<Options> read_options(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size();
    if (arguments[i] == "--seconds" && has_value) {
      if (!read_number(arguments[++i], options.seconds)) return std::nullopt;
    } else if (arguments[i] == "--seed" && has_value) {
      if (!read_number(arguments[++i], options.seed)) return std::nullopt;
    } else if (arguments[i].starts_with("--") || !fs::exists(arguments[i])) {
      return std::nullopt;
    } else {
      options.inputs.emplace_back(arguments[i]);
    }
  }
  if (options.inputs.empty()) return std::nullopt;
  return options;
}

std::int64_t mutate_for(double seconds, Mutator mutator) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::int64_t count = 0;
  while (std::chrono::steady_clock::now() < end) {
    run(mutator.next());
    ++count;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = read_options({argv + 1, argv + argc});
  if (!options) {
    std::fprintf(stderr,
                 "usage: %s [--seconds N] [--seed N] FILE_OR_FOLDER...\n  --seconds 0 only runs "
                 "the inputs\n",
                 argv[0]);
    return 2;
  }
  watch_for_crashes(fs::path(argv[0]).filename().string());
  std::vector<std::string> inputs = read_inputs(options->inputs);
  if (inputs.empty()) inputs.emplace_back();
  for (const std::string& input : inputs) run(input);
  const auto mutated = mutate_for(options->seconds, {inputs, options->seed, max_input_bytes});
  std::printf("%zu inputs and %lld mutations of them, seed %llu\n", inputs.size(),
              static_cast<long long>(mutated), static_cast<unsigned long long>(options->seed));
}
