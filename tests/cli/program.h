// Runs the real program as a user would.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::testing {

struct Outcome {
  int code = -1;  ///< exit code; 128 + signal where one ended it
  std::string output;
  std::string errors;
};

/// Runs shardscope with `arguments` through a shell in `folder`, so that arguments may redirect.
Outcome run_program(const std::string& arguments, const std::filesystem::path& folder);

/// A new empty folder, removed at the end; HOME of the programs that run in it.
class Workplace {
 public:
  Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  ~Workplace();

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const { return std::filesystem::exists(path_ / name); }
  /// Names of what lies in it, sorted.
  std::vector<std::string> files() const;
  Outcome run(const std::string& arguments) const { return run_program(arguments, path_); }

 private:
  std::filesystem::path path_;
};

/// A GPT-2 of 2 layers of width 16 over bytes, as config.json.
std::string tiny_config();
/// A job on it, for text.txt: {"model": "model", ...}.
std::string tiny_job();
/// model/config.json, text.txt and job.json.
void set_up_tiny_job(const Workplace& workplace);

/// `text` with the first `what` replaced; fails the test if it does not occur.
std::string replaced(std::string text, const std::string& what, const std::string& by);

/// The number of lines of a text.
std::size_t lines_of(const std::string& text);

}  // namespace shardscope::testing
