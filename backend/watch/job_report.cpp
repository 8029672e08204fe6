#include "backend/watch/job_report.h"

#include "backend/watch/flight_record.h"
#include "backend/watch/watch_keys.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::chrono::milliseconds longest_answer{1000};

}  // namespace

JobReport::JobReport(int port) : store_("127.0.0.1", port, longest_answer) {}

void JobReport::tell_lost(int rank, const std::string& how) {
  try {
    store_.offer(trouble_key, to_text({.kind = TroubleKind::lost, .rank = rank, .text = how}));
  } catch (const Error&) {
  }
}

std::optional<std::string> JobReport::failure_of(int rank) {
  try {
    return store_.peek(failure_key(rank));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Verdict> JobReport::verdict() {
  try {
    const std::optional<std::string> text = store_.peek(verdict_key);
    return text ? parse_verdict(*text) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace shardscope
