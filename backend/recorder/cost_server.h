// Answers what work costs, for recorded processes that keep virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace shardscope {

/// Nanoseconds of a question: fields with tabs between (docs/recording.md).
using CostAnswers = std::function<std::int64_t(std::string_view question)>;

/// Listens while it lives, in a thread of its own, which is the only one that calls `answers`.
class CostServer {
 public:
  /// Throws Error (ExitCode::outside) where no socket can be had.
  explicit CostServer(CostAnswers answers);
  ~CostServer();
  CostServer(const CostServer&) = delete;
  CostServer& operator=(const CostServer&) = delete;

  /// Of a socket that lies in no folder.
  const std::string& name() const { return name_; }

 private:
  CostAnswers answers_;
  std::string name_;
  int listening_ = -1, ends_ = -1;
  std::thread thread_;
};

}  // namespace shardscope
