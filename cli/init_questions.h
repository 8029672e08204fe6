// The questions of `shardscope init`, and the command that follows from the answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardscope {

/// What the first command needs to know. What is not given is asked, or assumed.
struct InitAnswers {
  std::optional<std::string> model;    ///< folder or config.json
  std::optional<std::string> cluster;  ///< hardware profile
  std::optional<std::int64_t> world;
  std::optional<std::int64_t> seq;
  std::optional<std::int64_t> tokens_per_batch;
  std::optional<std::string> config;  ///< a file of accelerate or DeepSpeed; "": there is none
};

/// Asks one question and gives the line that was typed; none at the end of the input. `usual` is
/// what an empty line means; "" where it needs an answer.
using Ask = std::function<std::optional<std::string>(const std::string& question,
                                                     const std::string& usual)>;
/// Says why an answer does not do, before the question is asked again.
using Complain = std::function<void(const std::string& why)>;

struct FirstCommand {
  std::vector<std::string> words;    ///< "shardscope", "plan", "--model", ...
  std::vector<std::string> assumed;  ///< what nobody said
};

/// Completes `answers`: asks where `ask` is given, else assumes what is usual. `profile` is the
/// hardware profile that this machine is like; "" where it has no GPU. Every answer is read as the
/// command will read it. Throws Error for an option that cannot be used, and where the model is
/// missing and nobody can be asked.
FirstCommand first_command(const InitAnswers& answers, const std::string& profile, const Ask& ask,
                           const Complain& complain);

/// The words as a shell reads them, one line of at most 100 characters after another.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace shardscope
